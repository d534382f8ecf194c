"""What is told of each token is what really happened to it."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.cascade.dispatcher import Coverage, Level
from inference.hplm.fragments import pack
from inference.hplm.lower_states import compute_lower_states
from inference.hplm.plot import PlotChain
from inference.hplm.plot_lookup import LowerLayers
from inference.text.token_levels import tokens_of
from inference.text.tokenization import Encoding, TextTokenizer
from tests.unit.inference.engine.worlds import EngineWorld
from tests.unit.tiny import WORDS

known = st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=30).map(" ".join)
Ids = NDArray[np.int64]


def held(chain: PlotChain, *fragment: int) -> bool:
    """Whether a table of the chain holds exactly this fragment."""
    key = int(pack(np.array(fragment)))
    return any(key in table.keys for table in chain.tables)


def looked_up(chain: PlotChain, ids: Ids) -> list[str]:
    """What the tables give for the fragment around each token, one token at a time."""
    nothing = chain.missing_id
    padded = [nothing, *ids.tolist(), nothing]
    told = []
    for left, centre, right in zip(padded, padded[1:], padded[2:], strict=False):
        parts = [(left, centre, nothing), (nothing, centre, right)]
        shorter = [part for part in parts if part != (nothing, centre, nothing)]
        if held(chain, left, centre, right):
            told.append("trigram")
        else:
            told.append("bigram" if any(held(chain, *part) for part in shorter) else "unigram")
    return told


@pytest.fixture(scope="module")
def halves(shared_world: EngineWorld) -> list[LowerLayers]:
    full = shared_world.tiny.root.checkpoint_lower()
    return [LowerLayers(chain, full) for chain in shared_world.chains.values()]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    mix=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(Level), known, st.booleans()), min_size=1, max_size=6
    )
)
def test_each_token_is_told_what_the_reference_finds_for_it_whatever_else_is_in_the_batch(
    shared_world: EngineWorld, halves: list[LowerLayers], mix: list[tuple[int, Level, str, bool]]
) -> None:
    encoded = [shared_world.tiny.root.tokenizer.encode(text) for *_, text, _ in mix]
    own, asked, explain = (
        [halves[at] for at, *_ in mix],
        [level for _, level, *_ in mix],
        [e for *_, e in mix],
    )
    filled = compute_lower_states([one.ids for one in encoded], own, asked, explain=explain)
    for at, (half, encoding) in enumerate(zip(own, encoded, strict=True)):
        levels, covered = filled.token_levels[at], filled.coverage[at]
        if not explain[at]:
            assert levels is None
            continue
        assert levels is not None
        expected = looked_up(half.chain, encoding.ids)
        if asked[at] is Level.FULL:
            expected = ["computed"] * len(expected)
        told = tokens_of("classification", [encoding], [levels])
        assert [token["level"] for token in told] == expected[1:-1]
        if asked[at] is Level.TABLE:
            assert Coverage(*np.bincount(levels, minlength=3).tolist()) == covered


def test_what_two_windows_share_is_told_once_and_every_character_is_covered(
    shared_world: EngineWorld,
) -> None:
    whole: TextTokenizer = shared_world.tiny.root.tokenizer
    question, context = "the river", " ".join(WORDS * 12)
    windows: list[Encoding] = whole.windows(question, context)
    assert len(windows) > 1
    levels = [np.full(len(one), number % 4, dtype=np.uint8) for number, one in enumerate(windows)]
    told = tokens_of("question_answering", windows, levels)
    asked = [token for token in told if token["of"] == "question"]
    read = [token for token in told if token["of"] == "context"]
    assert "".join(question[one["start"] : one["end"]] for one in asked) == question.replace(" ", "")
    assert "".join(context[one["start"] : one["end"]] for one in read) == context.replace(" ", "")
    assert {one["level"] for one in asked} == {"trigram"}
    assert read[-1]["level"] != read[0]["level"]
