"""The table of errors."""

from tenants.base.errors import HTTP_STATUS, ErrorCode


def test_every_code_has_a_status() -> None:
    assert set(HTTP_STATUS) == set(ErrorCode)
    assert HTTP_STATUS[ErrorCode.NOT_FOUND] == 404
    assert HTTP_STATUS[ErrorCode.MIXED_TYPES] == 422
