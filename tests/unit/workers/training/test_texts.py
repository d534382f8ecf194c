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
from workers.training.sequences import Framed
from workers.training.simulated_misses import Frequencies
from workers.training.training_texts import Course, TrainingTexts


@pytest.fixture
def texts(branch: Branch, tmp_path: Path) -> TrainingTexts:
    corpus = read_corpus(corpus_file(tmp_path / "corpus.txt"))
    reader = CorpusReader(branch.root / "tokenizer.json", branch.loaded.config)
    return TrainingTexts.split(corpus, reader, held_out_share=0.1, batch_tokens=256, seed=0)


def ids_of(batch: list[Framed]) -> list[list[int]]:
    return [one.ids.tolist() for one in batch]


def test_a_batch_is_the_same_whenever_it_is_asked_for(texts: TrainingTexts) -> None:
    course = Course(texts, 2_000, stage=3)
    late = ids_of(course.batch(len(course) + 1))
    first = ids_of(course.batch(1))
    assert ids_of(Course(texts, 2_000, stage=3).batch(1)) == first
    assert ids_of(Course(texts, 2_000, stage=3).batch(len(course) + 1)) == late


def test_every_cycle_and_every_stage_draws_anew(texts: TrainingTexts) -> None:
    course, other = Course(texts, 2_000, stage=3), Course(texts, 2_000, stage=4)
    first = ids_of(course.batch(0))
    assert ids_of(course.batch(len(course))) != first
    assert ids_of(other.batch(0)) != first


def test_texts_are_counted_whole_until_there_are_enough_and_none_of_those_kept_apart(
    texts: TrainingTexts,
) -> None:
    counted = list(texts.counted(500))
    assert 500 <= sum(map(len, counted)) < 600
    learnt = {tuple(ids.tolist()) for ids in texts.reader.sequences(texts.corpus.texts(texts.learn))}
    assert all(tuple(ids.tolist()) in learnt for ids in counted)
    everything = sum(map(len, texts.counted(10**9)))
    assert everything == sum(len(ids) for ids in texts.reader.sequences(texts.corpus.texts(texts.learn)))


def test_what_is_held_out_is_the_same_for_every_run(texts: TrainingTexts) -> None:
    first, again = texts.held_out(400), texts.held_out(400)
    assert [ids_of(batch) for batch in first] == [ids_of(batch) for batch in again]
    assert not np.intersect1d(texts.learn, texts.kept).size


@pytest.mark.parametrize(
    "read",
    [
        lambda texts: texts.to_learn(2_000, stage=3),
        lambda texts: texts.held_out(500),
        lambda texts: Course(texts, 2_000, stage=3),
        lambda texts: Frequencies.of(texts.counted(2_000), 3, 0),
    ],
    ids=["drawn", "held out", "course", "counted"],
)
def test_a_cancel_is_heard_while_texts_are_read(
    texts: TrainingTexts, read: Callable[[TrainingTexts], object]
) -> None:
    cancel = CancelAt(5)
    with pytest.raises(Cancelled):
        read(replace(texts, check=cancel.check))
    read(texts)


def test_a_cancel_is_heard_while_a_corpus_is_indexed(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        read_corpus(corpus_file(tmp_path / "corpus.txt"), CancelAt(5).check)
