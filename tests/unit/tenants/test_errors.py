"""The table of errors."""

from tenants.base.errors import HTTP_STATUS, ErrorCode, HmiError


def test_every_code_has_a_status() -> None:
    assert set(HTTP_STATUS) == set(ErrorCode)
    assert HTTP_STATUS[ErrorCode.NOT_FOUND] == 404
    assert HTTP_STATUS[ErrorCode.MIXED_TYPES] == 422


def test_an_error_is_told_in_one_shape() -> None:
    error = HmiError(ErrorCode.QUEUE_FULL, "Full.", param="inputs", details={"depth": 3}, retry_after=2)
    assert error.status == 429
    assert error.to_json() == {
        "error": {
            "type": "limit",
            "code": "queue_full",
            "message": "Full.",
            "param": "inputs",
            "details": {"depth": 3},
        }
    }
    assert "details" not in HmiError(ErrorCode.INTERNAL, "Oh.").to_json()["error"]
