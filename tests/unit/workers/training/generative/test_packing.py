"""Packing of sequences into token budgets."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.hplm.upload import Upload
from workers.training.generative import packing
from workers.training.generative.packing import TrainingSequence, pack, token_batches
from workers.training.tasks.base import IGNORE_INDEX


def sequence(ids: list[int], learned: list[bool]) -> TrainingSequence:
    return TrainingSequence(np.asarray(ids, dtype=np.int64), np.asarray(learned))


def test_sequences_lie_one_after_another_with_positions_from_0_and_targets_one_ahead() -> None:
    batch = pack([sequence([5, 6, 7, 8], [False, True, True]), sequence([9, 4], [True])])
    assert batch.token_ids.tolist() == [5, 6, 7, 9]
    assert batch.positions.tolist() == [0, 1, 2, 0]
    assert batch.layout.lengths == (3, 1)
    assert batch.rows.tolist() == [1, 2, 3]
    assert batch.targets.tolist() == [7, 8, 4]
    assert batch.token_ids.dtype == torch.int64


def test_on_a_gpu_batches_have_few_sizes_and_the_padding_is_not_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "Upload", lambda _device: Upload(torch.device("cpu")))
    batch = pack(
        [sequence([5, 6, 7, 8], [False, True, True]), sequence([9, 4], [True])], torch.device("cuda")
    )
    assert batch.layout.lengths == (3, 1, 60)
    assert batch.tokens == 4
    assert batch.token_ids.tolist() == [5, 6, 7, 9] + [0] * 60
    assert batch.positions.tolist() == [0, 1, 2, 0] + [0] * 60
    assert batch.rows.tolist() == [1, 2, 3] + [0] * 61
    assert batch.targets.tolist() == [7, 8, 4] + [IGNORE_INDEX] * 61


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=50),
    budget=st.integers(1, 60),
    seed=st.none() | st.integers(0, 9),
    rows=st.none() | st.integers(1, 8),
)
def test_each_sequence_is_in_one_batch_and_no_batch_is_over_budget(
    lengths: list[int], budget: int, seed: int | None, rows: int | None
) -> None:
    rng = None if seed is None else np.random.default_rng(seed)
    batches = list(token_batches(lengths, budget, rng, rows=rows))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget
        assert rows is None or len(batch) <= rows
    for batch, following in pairwise(batches):
        full = len(batch) == rows
        assert full or sum(lengths[index] for index in batch) + lengths[following[0]] > budget
