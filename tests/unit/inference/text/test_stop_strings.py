"""Where a text that comes in pieces ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.text.stop_strings import StopStrings

words = st.text("ab\n", max_size=12)
stop_lists = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=4)


def cut(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The text before the stop string that ends first, the longest of those that end there."""
    for end in range(1, len(text) + 1):
        if found := [stop for stop in stops if text[:end].endswith(stop)]:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(st.lists(words, max_size=6), stop_lists)
def test_any_pieces_of_a_text_are_cut_as_the_whole(pieces: list[str], stops: list[str]) -> None:
    stop_strings = StopStrings(stops)
    given_out = "".join([*map(stop_strings.push, pieces), stop_strings.finish()])
    assert (given_out, stop_strings.found) == cut("".join(pieces), stops)


@given(st.lists(words, max_size=6), stop_lists)
def test_what_is_held_back_may_be_the_beginning_of_a_stop_string(pieces: list[str], stops: list[str]) -> None:
    stop_strings = StopStrings(stops)
    text = given_out = ""
    for piece in pieces:
        text += piece
        given_out += stop_strings.push(piece)
        if stop_strings.found is None:
            held = text[len(given_out) :]
            assert not held or any(stop.startswith(held) and stop != held for stop in stops)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one character"):
        StopStrings(["a", ""])
