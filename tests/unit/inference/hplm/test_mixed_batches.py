"""A batch that mixes models gives each row what its model gives it alone."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.errors import HplmError
from inference.hplm import fragments
from inference.hplm.compose import compose
from inference.hplm.heads import POOLINGS, Head, apply_heads, pool
from inference.hplm.hplm import Hplm
from inference.hplm.pet_batch import SegmentPets
from inference.hplm.pets import PackedPet
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.text.tasks import MULTILABEL, QUESTION_ANSWERING, REGRESSION, TAGGING
from tests.reference_hplm import reference_outputs
from tests.unit.tiny import SPECS, tiny_hplm, tiny_lower, tiny_plot, tiny_root, tiny_texts
from tests.unit.tiny_world import TinyWorld

TEXTS = ["", "a", *tiny_texts(8, longest=20), "quixotic " * 80]
HIDDEN = 6
Row = tuple[Hplm, PlotChain, str, str | None]


def answer_together(root: Root, rows: list[Row]) -> list[NDArray[np.float32]]:
    """The serving machine's arithmetic in a few lines: one pass for all rows."""
    config = root.config
    encodings = [root.tokenizer.encode(text, pair) for _, _, text, pair in rows]
    sequences = PackedSequences.of([encoding.ids for encoding in encodings])
    states = []
    for (_, chain, _, _), encoding in zip(rows, encodings, strict=True):
        found = chain.lookup(fragments.extract(encoding.ids, config.missing_id, config.n))
        slots, types = torch.from_numpy(found.vectors)[None], torch.from_numpy(encoding.types)[None]
        states.append(compose(slots, torch.tensor([len(encoding)]), chain.composition, types)[0])
    packed = {id(hplm): PackedPet.of(hplm.pet, torch.float32) for hplm, *_ in rows}
    pets = SegmentPets.of([packed[id(hplm)] for hplm, *_ in rows], sequences.lengths)
    with torch.no_grad():
        last = root.upper(torch.cat(states), sequences, pets)
        return apply_heads([hplm.head for hplm, *_ in rows], last, sequences)


def check(root: Root, rows: list[Row]) -> None:
    """Every row agrees with its model run alone."""
    together = answer_together(root, rows)
    for (hplm, chain, text, pair), outputs in zip(rows, together, strict=True):
        encoding = root.tokenizer.encode(text, pair)
        alone = reference_outputs(root, chain, hplm, encoding.ids, encoding.types)
        assert outputs.shape == alone.shape
        np.testing.assert_allclose(outputs, alone, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_row_of_any_mix_agrees_with_its_hplm_run_alone(world: TinyWorld, data: st.DataObject) -> None:
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from(world.hplms), st.sampled_from(TEXTS)), min_size=1, max_size=8)
    )
    rows: list[Row] = [(hplm.model, world.chain(hplm), text, None) for hplm, text in drawn]
    check(world.root, rows)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_kind_of_task_and_pet_shares_a_batch_whatever_the_fragments(
    n: int, dtype: str, tmp_path: Path
) -> None:
    root = tiny_root(tmp_path / "checkpoint", n=n)
    texts = tiny_texts(12)
    plot = tiny_plot(tmp_path / "plot", root, tiny_lower(root), texts, dtype=dtype)
    chain = PlotChain([PlotTable.open(plot)])
    models = [tiny_hplm(root, spec=spec, seed=at) for at, spec in enumerate(SPECS)]
    models += [
        tiny_hplm(root, REGRESSION, pooling="cls_mean"),
        tiny_hplm(root, MULTILABEL, spec=SPECS[1]),
        tiny_hplm(root, TAGGING, spec=SPECS[2]),
        tiny_hplm(root, QUESTION_ANSWERING, spec=SPECS[3], pairs=True),
    ]
    pairs = [None] * 4 + texts[:5]
    rows = [(m, chain, text, pair) for m, text, pair in zip(models, texts[3:], pairs, strict=True)]
    check(root, rows)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=6),
    st.permutations(POOLINGS),
)
def test_heads_of_any_widths_and_poolings_side_by_side_answer_without_padding(
    rows: list[tuple[int, int]], poolings: list[str]
) -> None:
    heads = [
        Head.initial(width, HIDDEN, pooling=pooling)  # type: ignore[arg-type]
        for width, pooling in zip((2, 7, 3), poolings, strict=True)
    ]
    index, lengths = (list(column) for column in zip(*rows, strict=True))
    states = torch.randn(sum(lengths), HIDDEN)
    chosen = [heads[which] for which in index]
    found = apply_heads(chosen, states, PackedSequences(tuple(lengths)))
    for head, own, outputs in zip(chosen, torch.split(states, lengths), found, strict=True):
        alone = pool(own[None], torch.ones(1, len(own), dtype=torch.bool), head.pooling)
        expected = head.apply(alone)[0]
        assert outputs.shape == tuple(expected.shape)
        np.testing.assert_allclose(outputs, expected.numpy(), atol=1e-5)


def test_weights_of_contradicting_shapes_are_no_head() -> None:
    with pytest.raises(HplmError, match="head"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)})
    with pytest.raises(HplmError, match="pooling"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, "max")  # type: ignore[arg-type]
