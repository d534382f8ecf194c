"""Reading JSON bodies: strict, and other threads run while a large one is read."""

import pytest

from tenants.base.errors import HmiError
from tenants.base.strict_json import _DECODER, parse_json
from tests.other_threads import turns_meanwhile


def test_other_threads_run_while_long_numbers_are_read() -> None:
    text = f"[{','.join(['0.' + '1' * 4_200] * 3_900)}]"
    assert turns_meanwhile(lambda: _DECODER.decode(text)) >= 5


def test_escapes_are_counted_in_pieces_and_never_torn() -> None:
    for backslashes in range(64 * 1024 - 4, 64 * 1024 + 4):
        text = "\\" * (2 * (backslashes // 2)) + '\\"' + "x" * 200_000
        assert parse_json(b'["' + text.encode() + b'", 1]') == [
            "\\" * (backslashes // 2) + '"' + "x" * 200_000,
            1,
        ]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", "invalid_json"),
        (b'{"model": "mood", "inputs": ["x"]} x', "invalid_json"),
        (b'{"model": NaN}', "invalid_json"),
        (b'{"inputs": ["caf\xe9"]}', "invalid_encoding"),
        ('{"model": "mood"}'.encode("utf-16"), "invalid_encoding"),
    ],
)
def test_bytes_that_are_no_json_are_refused(raw: bytes, code: str) -> None:
    with pytest.raises(HmiError) as refusal:
        parse_json(raw)
    assert (refusal.value.code, refusal.value.param) == (code, None)
