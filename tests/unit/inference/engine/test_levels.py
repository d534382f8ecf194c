"""The states at the cut: those of each level equal their definition, alone or in company, and each token has
the level that it was found at."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from inference.cascade.dispatcher import Coverage, Level
from inference.errors import HplmError
from inference.hplm import fragments
from inference.hplm.fragments import pack
from inference.hplm.lower_states import LowerLayersOutput, compute_lower_states
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.row_cache import RowCache
from inference.text.token_levels import tokens_of
from inference.text.tokenization import Encoding, TextTokenizer
from tests.unit.inference.engine.worlds import EngineWorld, states_alone
from tests.unit.plot_lookups import looked_up
from tests.unit.tiny import WORDS, tiny_lower, tiny_mixer, tiny_plot, tiny_root, tiny_texts

Ids = NDArray[np.int64]

known = st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=40).map(" ".join)
mixes = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(Level), known, known), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def halves(shared_world: EngineWorld) -> list[LowerLayers]:
    """Of the root's table alone, and of a domain's before it, whose mixer is the root's; of an older domain
    with a linear correction in its place; and of one with a mixer of its own."""
    full = shared_world.tiny.root.checkpoint_lower()
    root, domain = (LowerLayers(chain, full) for chain in shared_world.chains.values())
    given, hidden = domain.tables.composition, domain.tables.composition.hidden
    down, up = torch.randn(4, hidden, 3) / 4, torch.randn(3, hidden) / 4
    older = replace(given, context_down=down, context_up=up, mixer=None)
    other = replace(given, mixer=tiny_mixer(hidden, width=32, seed=1))
    return [root, domain, replace(domain, composition=older), replace(domain, composition=other)]


def test_tables_of_one_root_have_one_mixer_on_each_device_and_in_each_dtype(
    halves: list[LowerLayers],
) -> None:
    root, domain = (half.tables.composition for half in halves[:2])
    assert root.mixer is not None
    assert root.mixer is domain.mixer
    lower = [given.to("cpu").with_context_dtype(torch.bfloat16).mixer for given in (root, domain)]
    assert lower[0] is lower[1]
    assert lower[0] is not None
    assert (lower[0].dtype, root.mixer.dtype) == (torch.bfloat16, torch.float32)


def ids_of(world: EngineWorld, text: str) -> Ids:
    return world.tiny.root.tokenizer.encode(text).ids


def states_of(filled: LowerLayersOutput, at: int) -> Tensor:
    return filled.sequences.split(filled.states)[at]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(mix=mixes)
def test_any_mix_of_chains_and_levels_gives_each_text_what_it_gets_alone(
    shared_world: EngineWorld, halves: list[LowerLayers], mix: list[tuple[int, Level, str, str]]
) -> None:
    """Of two texts where there is a second."""
    tokenizer = shared_world.tiny.root.tokenizer
    encoded = [tokenizer.encode(text, pair or None) for _, _, text, pair in mix]
    own = [halves[number] for number, *_ in mix]
    ids, types = [one.ids for one in encoded], [one.types for one in encoded]
    filled = compute_lower_states(ids, own, [level for _, level, _, _ in mix], types)
    for at, (_, level, _, _) in enumerate(mix):
        alone = states_alone(own[at], ids[at], types[at], level)
        torch.testing.assert_close(states_of(filled, at), alone, atol=1e-4, rtol=1e-4)


def test_a_text_cannot_be_computed_without_the_layers_for_it(
    shared_world: EngineWorld, halves: list[LowerLayers]
) -> None:
    half = replace(halves[0], full=None)
    ids = ids_of(shared_world, "the river")
    assert compute_lower_states([ids], [half], [Level.TABLE]).states.isfinite().all()
    with pytest.raises(HplmError, match="not loaded"):
        compute_lower_states([ids], [half], [Level.FULL])


def test_coverage_counts_every_looked_up_token(shared_world: EngineWorld, halves: list[LowerLayers]) -> None:
    texts = ["the river zebra", "quixotic", "light of the city"]
    ids = [ids_of(shared_world, text) for text in texts]
    filled = compute_lower_states(ids, [halves[1]] * 3, [Level.TABLE] * 3)
    for covered, own in zip(filled.coverage, ids, strict=True):
        assert covered.whole + covered.part + covered.unigram == len(own)
        lookup = looked_up(halves[1].tables, fragments.extract(own, halves[1].tables.missing_id))
        assert covered.part + covered.unigram == int((lookup.level > 0).sum())


def test_computed_text_looks_nothing_up(shared_world: EngineWorld, halves: list[LowerLayers]) -> None:
    ids = [ids_of(shared_world, text) for text in ("quixotic zebra", "the river")]
    filled = compute_lower_states(ids, [halves[1]] * 2, [Level.FULL, Level.TABLE])
    assert filled.coverage[0] == Coverage() != filled.coverage[1]


@pytest.mark.parametrize("n", [2, 4, 5])
def test_fragments_of_other_sizes_are_no_different(tmp_path: Path, n: int) -> None:
    root = tiny_root(tmp_path / "checkpoint", n=n)
    local = tiny_lower(root)
    tiny_plot(tmp_path / "plot", root, local, tiny_texts(20), share=0.5)
    chain = PlotChain([PlotTable.open(tmp_path / "plot")])
    half = LowerLayers(chain, root.checkpoint_lower())
    for level in Level:
        ids = [root.tokenizer.encode(text).ids for text in (*tiny_texts(4, seed=1), "x")]
        filled = compute_lower_states(ids, [half] * 5, [level] * 5)
        for at, own in enumerate(ids):
            alone = states_alone(half, own, np.zeros_like(own), level)
            torch.testing.assert_close(states_of(filled, at), alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("count", [1, 5])
def test_states_have_gradients(
    shared_world: EngineWorld, halves: list[LowerLayers], count: int, level: Level
) -> None:
    """The states feed training too."""
    ids: Sequence[Ids] = [ids_of(shared_world, "the river zebra")] * count
    filled = compute_lower_states(ids, [halves[0]] * count, [level] * count)
    weight = torch.ones(filled.states.shape[1], requires_grad=True)
    (filled.states @ weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("context", [torch.float32, torch.bfloat16])
def test_autocast_to_bfloat16_changes_no_more_than_rounding(
    shared_world: EngineWorld,
    halves: list[LowerLayers],
    level: Level,
    hot: bool,
    context: torch.dtype,
) -> None:
    """Training calls it under autocast. PyTorch refuses to concatenate float16 rows there."""
    chain = halves[1].tables
    composition = chain.composition.with_context_dtype(context)
    caches = [RowCache(table, len(table), torch.device("cpu")) for table in chain.tables] if hot else []
    for cache in caches:
        cache.fill()
    half = replace(halves[1], composition=composition, row_caches=caches)
    ids = [ids_of(shared_world, text) for text in ("the river zebra", "quixotic", "light of the city")]
    plain = compute_lower_states(ids, [half] * 3, [level] * 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = compute_lower_states(ids, [half] * 3, [level] * 3)
    assert cast.coverage == plain.coverage
    torch.testing.assert_close(cast.states, plain.states, atol=0.1, rtol=0.1)


def held(chain: PlotChain, *fragment: int) -> bool:
    """Whether a table of the chain holds exactly this fragment."""
    key = int(pack(np.array(fragment)))
    return any(key in table.keys for table in chain.tables)


def levels_of(chain: PlotChain, ids: Ids) -> list[str]:
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


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    mix=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(Level), known, st.booleans()), min_size=1, max_size=6
    )
)
def test_level_of_each_token_is_that_of_the_reference_in_any_batch(
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
        expected = levels_of(half.tables, encoding.ids)
        if asked[at] is Level.FULL:
            expected = ["computed"] * len(expected)
        told = tokens_of("classification", [encoding], [levels])
        assert [token["level"] for token in told] == expected[1:-1]
        if asked[at] is Level.TABLE:
            assert Coverage(*np.bincount(levels, minlength=3).tolist()) == covered


def test_overlap_of_windows_counts_once_and_each_character_is_covered(
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
