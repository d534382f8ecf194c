"""The figures and marks that pages draw."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontend.presenters.charts import counted_bars, parts
from frontend.presenters.text_spans import text_spans
from frontend.status import STYLES, style_of
from frontend.templatetags.ui import duration
from versiontree.jobs.models import JobState
from versiontree.tree.models.version import VersionState


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=8, unique=True))
def test_the_pieces_of_a_marked_text_make_up_the_text(text: str, cuts: list[int]) -> None:
    ends = sorted(cut for cut in cuts if cut <= len(text))
    places = list(zip(ends[::2], ends[1::2], strict=False))
    spans = [{"start": start, "end": end, "label": "x", "score": 0.5} for start, end in places]
    pieces = list(text_spans(text, spans))
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.text for piece in pieces if piece.label] == [text[start:end] for start, end in places]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6))
def test_parts_of_a_whole_lie_end_to_end(amounts: list[float]) -> None:
    drawn = parts(("a", amount, "") for amount in amounts)
    for before, after in pairwise(drawn):
        assert after.start == pytest.approx(before.start + before.share)
    assert sum(part.share for part in drawn) == pytest.approx(1.0 if sum(amounts) else 0.0)


def test_labels_beyond_the_limit_are_summed_up_in_a_last_line_without_a_bar() -> None:
    bars = counted_bars({f"label {n}": n for n in range(1, 21)}, limit=12)
    assert (bars[0].name, bars[0].share) == ("label 20", 1.0)
    assert (bars[-1].name, bars[-1].share, bars[-1].figure) == ("8 more", None, "36")


def test_every_state_has_a_label_and_a_colour() -> None:
    assert set(STYLES) >= {*JobState.values, *VersionState.values}
    assert style_of("failed").colour == "danger"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.2, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")],
)
def test_durations_are_written_as_people_say_them(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
