"""A corpus in two parts, and the batches of a stage."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import CancelAt, corpus_file
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.progress import Cancelled
from workers.training.sequences import TokenSequence
from workers.training.simulated_misses import FragmentFrequencies
from workers.training.training_corpus import BatchSampler, TrainingCorpus


@pytest.fixture
def texts(branch: Branch, tmp_path: Path) -> TrainingCorpus:
    corpus = read_corpus(corpus_file(tmp_path / "corpus.txt"))
    reader = CorpusReader(branch.root / "tokenizer.json", branch.loaded.config)
    return TrainingCorpus.split(corpus, reader, held_out_share=0.1, batch_tokens=256, seed=0)


def ids_of(batch: list[TokenSequence]) -> list[list[int]]:
    return [one.ids.tolist() for one in batch]


def test_a_batch_is_the_same_whenever_it_is_asked_for(texts: TrainingCorpus) -> None:
    course = BatchSampler(texts, 2_000, stage=3)
    late = ids_of(course.batch(len(course) + 1))
    first = ids_of(course.batch(1))
    assert ids_of(BatchSampler(texts, 2_000, stage=3).batch(1)) == first
    assert ids_of(BatchSampler(texts, 2_000, stage=3).batch(len(course) + 1)) == late


def test_every_cycle_and_every_stage_draws_anew(texts: TrainingCorpus) -> None:
    course, other = BatchSampler(texts, 2_000, stage=3), BatchSampler(texts, 2_000, stage=4)
    first = ids_of(course.batch(0))
    assert ids_of(course.batch(len(course))) != first
    assert ids_of(other.batch(0)) != first


def test_texts_are_counted_whole_until_there_are_enough_and_none_of_those_kept_apart(
    texts: TrainingCorpus,
) -> None:
    counted = list(texts.sequences_to_count(500))
    assert 500 <= sum(map(len, counted)) < 600
    learnt = {tuple(ids.tolist()) for ids in texts.reader.sequences(texts.corpus.texts(texts.train))}
    assert all(tuple(ids.tolist()) in learnt for ids in counted)
    everything = sum(map(len, texts.sequences_to_count(10**9)))
    assert everything == sum(len(ids) for ids in texts.reader.sequences(texts.corpus.texts(texts.train)))


def test_what_is_held_out_is_the_same_for_every_run(texts: TrainingCorpus) -> None:
    first, again = texts.held_out_batches(400), texts.held_out_batches(400)
    assert [ids_of(batch) for batch in first] == [ids_of(batch) for batch in again]
    assert not np.intersect1d(texts.train, texts.held_out).size


@pytest.mark.parametrize(
    "read",
    [
        lambda texts: texts.train_batches(2_000, stage=3),
        lambda texts: texts.held_out_batches(500),
        lambda texts: BatchSampler(texts, 2_000, stage=3),
        lambda texts: FragmentFrequencies.of(texts.sequences_to_count(2_000), 3, 0),
    ],
    ids=["drawn", "held out", "sampler", "counted"],
)
def test_a_cancel_is_heard_while_texts_are_read(
    texts: TrainingCorpus, read: Callable[[TrainingCorpus], object]
) -> None:
    cancel = CancelAt(5)
    with pytest.raises(Cancelled):
        read(replace(texts, check=cancel.raise_if_cancelled))
    read(texts)


def test_a_cancel_is_heard_while_a_corpus_is_indexed(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        read_corpus(corpus_file(tmp_path / "corpus.txt"), CancelAt(5).raise_if_cancelled)
