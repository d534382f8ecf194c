"""What a body may cost: the other threads run while a large one is read."""

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
