"""The states at the cut, whatever the tables lack: each way equals its definition, alone or in company."""

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

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.lower_states import LowerLayersOutput, compute_lower_states
from inference.hplm.miss_plan import CostModel, LevelErrors
from inference.hplm.miss_policy import MissHandling, MissPolicy
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import HitCounts, LowerLayers, lookup
from inference.hplm.row_cache import RowCache
from tests.unit.inference.engine.alone import COMPUTE, FALLBACK, WAYS, composed, states_alone
from tests.unit.inference.engine.worlds import EngineWorld
from tests.unit.tiny import WORDS, tiny_lower, tiny_plot, tiny_root, tiny_texts

Ids = NDArray[np.int64]

known = st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=40).map(" ".join)
mixes = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(WAYS), known, known), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def halves(shared_world: EngineWorld) -> list[LowerLayers]:
    """Of the root's table alone, and of a domain's before it, each with lower layers of its own."""
    full = shared_world.tiny.root.checkpoint_lower()
    return [LowerLayers(chain, shared_world.local(name), full) for name, chain in shared_world.chains.items()]


def ids_of(world: EngineWorld, text: str) -> Ids:
    return world.tiny.root.tokenizer.encode(text).ids


def states_of(filled: LowerLayersOutput, at: int) -> Tensor:
    return filled.sequences.split(filled.states)[at]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(mix=mixes)
def test_any_mix_of_chains_and_policies_gives_each_text_what_it_gets_alone(
    shared_world: EngineWorld, halves: list[LowerLayers], mix: list[tuple[int, MissHandling, str, str]]
) -> None:
    """Of two texts where there is a second."""
    tokenizer = shared_world.tiny.root.tokenizer
    encoded = [tokenizer.encode(text, pair or None) for _, _, text, pair in mix]
    own = [halves[number] for number, *_ in mix]
    ids, types = [one.ids for one in encoded], [one.types for one in encoded]
    filled = compute_lower_states(ids, own, [misses for _, misses, _, _ in mix], types)
    for at, (_, misses, _, _) in enumerate(mix):
        alone = states_alone(own[at], ids[at], types[at], misses)
        torch.testing.assert_close(states_of(filled, at), alone, atol=1e-4, rtol=1e-4)


def test_the_three_ways_differ(shared_world: EngineWorld, halves: list[LowerLayers]) -> None:
    """Or else the test above would prove little."""
    ids = ids_of(shared_world, "zebra river quixotic stone")
    looked_up, computed, whole = (compute_lower_states([ids], halves[:1], [misses]).states for misses in WAYS)
    assert (looked_up - computed).abs().max() > 0.1
    assert (computed - whole).abs().max() > 0.1


def empty_table(world: EngineWorld, local: LocalLower, folder: Path) -> PlotTable:
    """A table of uni-grams alone."""
    tiny_plot(folder, world.tiny.root, local, ["x"], share=0.0)
    return PlotTable.open(folder)


def test_without_a_table_computing_is_the_lower_layers_own_composition(
    shared_world: EngineWorld, halves: list[LowerLayers], tmp_path: Path
) -> None:
    local = halves[0].local
    assert local is not None
    half = LowerLayers(PlotChain([empty_table(shared_world, local, tmp_path)]), local)
    texts = [ids_of(shared_world, text) for text in ("the river stone", "a good winter in the city of light")]
    filled = compute_lower_states(texts, [half, half], [COMPUTE, COMPUTE])
    for at, ids in enumerate(texts):
        with torch.no_grad():
            rows = local(torch.from_numpy(fragments.extract(ids, local.missing_id)))
        states = composed(rows, np.zeros_like(ids), local.composition)
        torch.testing.assert_close(states_of(filled, at), states, atol=1e-5, rtol=1e-5)
        assert filled.counts[at] == HitCounts(computed=len(ids))


class Recording(LocalLower):
    """Lower layers that remember what they were asked."""

    asked: list[Ids]

    def forward(self, fragments: Tensor) -> Tensor:
        self.asked.append(fragments.numpy())
        return super().forward(fragments)


def test_a_missing_fragment_is_computed_once_for_the_whole_batch(
    shared_world: EngineWorld, halves: list[LowerLayers]
) -> None:
    local = shared_world.local(next(iter(shared_world.chains)))
    local.__class__ = Recording
    assert isinstance(local, Recording)
    local.asked = []
    half = LowerLayers(halves[0].chain, local)
    ids = ids_of(shared_world, "zebra zebra zebra quixotic")
    compute_lower_states([ids] * 3, [half] * 3, [COMPUTE, FALLBACK, COMPUTE])
    asked = np.concatenate(local.asked)
    assert len(asked) == len(np.unique(asked, axis=0)) > 0
    lacking = compute_lower_states([ids], [half], [FALLBACK]).missed[0]
    assert np.array_equal(np.unique(asked, axis=0), np.unique(lacking, axis=0))


def test_rows_are_gathered_only_of_what_comes_from_the_tables(
    shared_world: EngineWorld, halves: list[LowerLayers]
) -> None:
    ids = ids_of(shared_world, "the river zebra quixotic stone")
    found = halves[1].chain.lookup(fragments.extract(ids, halves[1].chain.missing_id))
    distinct = np.unique(fragments.extract(ids, halves[1].chain.missing_id)[found.level == 0], axis=0)
    looked_up, computed, whole = (lookup([ids], halves[1:], [misses]).parts[0] for misses in WAYS)
    assert len(looked_up.rows) > len(computed.rows) == len(distinct)
    assert len(whole.rows) == whole.rows.copied == 0


@pytest.mark.parametrize("misses", WAYS)
def test_every_token_is_accounted_for_and_what_is_missing_is_named(
    shared_world: EngineWorld, halves: list[LowerLayers], misses: MissHandling
) -> None:
    texts = ["the river zebra", "quixotic", "light of the city"]
    ids = [ids_of(shared_world, text) for text in texts]
    filled = compute_lower_states(ids, [halves[1]] * 3, [misses] * 3)
    for counts, missed, own in zip(filled.counts, filled.missed, ids, strict=True):
        answered = counts.exact + counts.shorter + counts.unigram + counts.computed
        assert answered == (0 if counts.full_context else len(own))
        lookup = halves[1].chain.lookup(fragments.extract(own, halves[1].chain.missing_id))
        assert len(missed) == int((lookup.level > 0).sum())
        assert all(fragment[1] in own for fragment in missed)


def test_auto_chooses_by_what_was_measured(shared_world: EngineWorld, halves: list[LowerLayers]) -> None:
    ids = ids_of(shared_world, "zebra river quixotic stone the light of the city")
    good, bad = LevelErrors(0.05, 0.06, 0.07), LevelErrors(0.05, 0.9, 0.9)

    def counts(errors: LevelErrors, costs: CostModel) -> HitCounts:
        half = LowerLayers(halves[0].chain, halves[0].local, halves[0].full, errors, costs)
        [found] = compute_lower_states([ids], [half], [MissHandling(MissPolicy.AUTO, 0.1)]).counts
        return found

    cheap, dear = CostModel(0.1, 1.0), CostModel(100.0, 1.0)
    assert counts(good, cheap).computed == 0
    assert counts(bad, cheap).computed > 0
    assert counts(bad, dear) == HitCounts(full_context=True)


@pytest.mark.parametrize("n", [2, 4, 5])
def test_fragments_of_other_sizes_are_no_different(tmp_path: Path, n: int) -> None:
    root = tiny_root(tmp_path / "checkpoint", n=n)
    local = tiny_lower(root)
    tiny_plot(tmp_path / "plot", root, local, tiny_texts(20), share=0.5)
    chain = PlotChain([PlotTable.open(tmp_path / "plot")])
    half = LowerLayers(chain, local.eval(), root.checkpoint_lower())
    for misses in WAYS:
        ids = [root.tokenizer.encode(text).ids for text in (*tiny_texts(4, seed=1), "x")]
        filled = compute_lower_states(ids, [half] * 5, [misses] * 5)
        for at, own in enumerate(ids):
            alone = states_alone(half, own, np.zeros_like(own), misses)
            torch.testing.assert_close(states_of(filled, at), alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 5])
def test_what_comes_out_may_be_learnt_from(
    shared_world: EngineWorld, halves: list[LowerLayers], count: int
) -> None:
    """The states feed training too."""
    ids: Sequence[Ids] = [ids_of(shared_world, "the river zebra")] * count
    filled = compute_lower_states(ids, [halves[0]] * count, [COMPUTE] * count)
    weight = torch.ones(filled.states.shape[1], requires_grad=True)
    (filled.states @ weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None


@pytest.mark.parametrize("misses", WAYS)
@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("context", [torch.float32, torch.bfloat16])
def test_autocast_to_bfloat16_changes_no_more_than_rounding(
    shared_world: EngineWorld,
    halves: list[LowerLayers],
    misses: MissHandling,
    hot: bool,
    context: torch.dtype,
) -> None:
    """Training calls it under autocast. PyTorch refuses to concatenate float16 rows there."""
    chain = halves[1].chain
    composition = chain.composition.with_context_dtype(context)
    caches = [RowCache(table, len(table), torch.device("cpu")) for table in chain.tables] if hot else []
    half = replace(halves[1], composition=composition, row_caches=caches)
    ids = [ids_of(shared_world, text) for text in ("the river zebra", "quixotic", "light of the city")]
    plain = compute_lower_states(ids, [half] * 3, [misses] * 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = compute_lower_states(ids, [half] * 3, [misses] * 3)
    assert cast.counts == plain.counts
    torch.testing.assert_close(cast.states, plain.states, atol=0.1, rtol=0.1)
