"""A batch that mixes hPLMs gives each row what its hPLM gives it alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn import functional

from inference.hplm import fragments
from inference.hplm.adapters import AdapterWeights, BatchedAdapters
from inference.hplm.compose import compose
from inference.hplm.errors import HplmError
from inference.hplm.heads import BatchedHeads, Head
from inference.hplm.hplm import TAGGING
from inference.hplm.predictions import predict
from inference.hplm.reference import logits_alone, predict_alone
from tests.unit.tiny import TinyHplm, TinyWorld, tiny_texts

TEXTS = ["", "a", *tiny_texts(8, longest=20), "quixotic " * 80]
HIDDEN = 6


def answer_together(
    world: TinyWorld, rows: list[tuple[TinyHplm, str]], padding: int = 0
) -> list[NDArray[np.float32]]:
    """The serving machine's arithmetic in a few lines: one pass for all rows."""
    upper, config = world.root.upper, world.root.config
    encodings = [world.root.tokenizer.encode(text) for _, text in rows]
    lengths = [len(encoding) for encoding in encodings]
    width = max(lengths) + padding
    slots = torch.zeros(len(rows), width, 3, config.hidden, dtype=torch.float16)
    for at, ((hplm, _), encoding) in enumerate(zip(rows, encodings, strict=True)):
        found = world.chain(hplm).lookup(fragments.of_sequence(encoding.ids, config.missing_id))
        slots[at, : lengths[at]] = torch.from_numpy(found.vectors)
    bias = torch.stack([functional.pad(world.chain(h).position_bias, (0, 0, 0, padding)) for h, _ in rows])
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    models = {hplm.digest: hplm.model for hplm, _ in rows}
    index = [list(models).index(hplm.digest) for hplm, _ in rows]
    adapters = BatchedAdapters.stack([model.adapter for model in models.values()], index)
    tagging = [hplm.model.task == TAGGING for hplm, _ in rows]
    heads = BatchedHeads.stack([model.head for model in models.values()], index, tagging)
    with torch.no_grad():
        final = upper(compose(slots, torch.tensor(lengths), bias), mask, adapters)
        return heads.apply(final).rows(lengths)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_row_of_any_mix_agrees_with_its_hplm_run_alone(world: TinyWorld, data: st.DataObject) -> None:
    row = st.tuples(st.sampled_from(world.hplms), st.sampled_from(TEXTS))
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    together = answer_together(world, rows, padding=data.draw(st.integers(0, 5)))
    for (hplm, text), logits in zip(rows, together, strict=True):
        encoding = world.root.tokenizer.encode(text)
        alone = logits_alone(world.root, world.chain(hplm), hplm.model, encoding.ids)
        assert logits.shape == alone.shape
        np.testing.assert_allclose(logits, alone, rtol=1e-4, atol=1e-4)


def test_two_hplms_of_a_batch_do_not_give_the_same_answer(world: TinyWorld) -> None:
    one, other = world.hplms[0], world.hplms[4]
    first, second = answer_together(world, [(one, TEXTS[3]), (other, TEXTS[3])])
    assert not np.allclose(first[:2], second[:2], atol=1e-2)


def test_the_reference_predicts_what_its_logits_say(world: TinyWorld) -> None:
    for hplm in world.hplms:
        encoding = world.root.tokenizer.encode(TEXTS[4])
        logits = logits_alone(world.root, world.chain(hplm), hplm.model, encoding.ids)
        expected = predict(hplm.model.task, hplm.model.labels, logits, encoding, TEXTS[4])
        assert predict_alone(world.root, world.chain(hplm), hplm.model, TEXTS[4]) == expected


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 1000))
def test_adapters_of_any_sizes_side_by_side_are_each_the_bottleneck_of_the_paper(
    sizes: list[int], rows: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    adapters = [AdapterWeights.initial(2, size, HIDDEN, generator=generator, scale=0.5) for size in sizes]
    for adapter in adapters:
        adapter.down_b.normal_(generator=generator)
        adapter.up_b.normal_(generator=generator)
    index = torch.randint(len(sizes), (rows,), generator=generator)
    states = torch.randn(rows, 3, HIDDEN, generator=generator)
    batched = BatchedAdapters.stack(adapters, index)
    for layer in range(2):
        found = batched.apply(layer, states)
        for row, which in enumerate(index.tolist()):
            own = adapters[which]
            narrow = (states[row] @ own.down_w[layer].T + own.down_b[layer]).relu()
            expected = narrow @ own.up_w[layer].T + own.up_b[layer] + states[row]
            assert torch.allclose(found[row], expected, atol=1e-5)


def test_gradients_reach_the_adapter_that_is_being_trained() -> None:
    adapter = AdapterWeights.initial(2, 4, HIDDEN)
    tensors = [value.requires_grad_(True) for value in adapter.tensors().values()]
    batched = BatchedAdapters.stack([adapter], [0, 0, 0])
    states = torch.randn(3, 5, HIDDEN)
    (batched.apply(1, batched.apply(0, states)) ** 2).sum().backward()  # type: ignore[no-untyped-call]
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in tensors)


def test_a_fresh_adapter_changes_next_to_nothing() -> None:
    states = torch.randn(1, 5, HIDDEN)
    adapter = AdapterWeights.initial(1, 4, HIDDEN, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(BatchedAdapters.stack([adapter], [0]).apply(0, states), states, atol=1e-2)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(1, 4)), min_size=1, max_size=6))
def test_heads_of_any_widths_side_by_side_answer_without_padding(rows: list[tuple[int, bool, int]]) -> None:
    heads = [Head.initial(width, HIDDEN) for width in (2, 7, 3)]
    states = torch.randn(len(rows), 4, HIDDEN)
    index, tagging, lengths = (list(column) for column in zip(*rows, strict=True))
    found = BatchedHeads.stack(heads, index, tagging).apply(states).rows(lengths)
    for row, (which, tags, length) in enumerate(rows):
        expected = heads[which].apply(states[row, :length] if tags else states[row, 0])
        assert found[row].shape == tuple(expected.shape)
        np.testing.assert_allclose(found[row], expected.numpy(), atol=1e-5)


def test_weights_of_contradicting_shapes_are_no_adapter_and_no_head() -> None:
    good = AdapterWeights.initial(2, 4, HIDDEN).tensors()
    for name in good:
        with pytest.raises(HplmError, match="adapter"):
            AdapterWeights.from_tensors({**good, name: torch.zeros(3, 3, 3)})
        with pytest.raises(HplmError, match=name):
            AdapterWeights.from_tensors({k: v for k, v in good.items() if k != name})
    with pytest.raises(HplmError, match="head"):
        Head.from_tensors({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)})
