"""Reading corpora, cutting sequences from them, and the batches of a stage."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from inference.errors import HplmError
from inference.hplm import fragments
from inference.text.tokenization import TOKENIZER_FILE
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import CancelAt, corpus_file
from workers.training.checkpoints import seeded_rng
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.progress import Cancelled
from workers.training.sequences import TokenSequence, draw_sequences, make_batch, make_batches, single_text
from workers.training.simulated_misses import FragmentFrequencies
from workers.training.training_corpus import BatchSampler, TrainingCorpus


@pytest.fixture
def reader(branch: Branch) -> CorpusReader:
    return CorpusReader(branch.root / TOKENIZER_FILE, branch.loaded.config)


def test_blank_lines_are_no_texts(tmp_path: Path) -> None:
    path = corpus_file(tmp_path / "corpus.txt", ["river", "", "   ", *["stone"] * 8])
    corpus = read_corpus(path)
    assert list(corpus.texts()) == ["river", *["stone"] * 8]
    assert list(corpus.texts(np.array([1, 0]))) == ["stone", "river"]


def test_too_few_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HplmError) as caught:
        read_corpus(corpus_file(tmp_path / "corpus.txt", ["river"] * 7))
    assert caught.value.code == "corpus_too_small"


def test_bytes_that_are_not_utf8_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"river\n" * 8 + b"caf\xe9\n")
    with pytest.raises(HplmError, match="byte 48") as caught:
        list(read_corpus(path).texts())
    assert caught.value.code == "invalid_encoding"


def test_a_long_text_becomes_several_sequences_and_loses_nothing(reader: CorpusReader) -> None:
    text = "river stone " * 100
    pieces = list(reader.sequences(iter([text])))
    config = reader.config
    assert all(len(piece) <= config.max_tokens for piece in pieces)
    assert all(piece[0] == config.cls_id and piece[-1] == config.sep_id for piece in pieces)
    assert np.concatenate([piece[1:-1] for piece in pieces]).tolist() == reader.plain(text).tolist()


def test_drawn_sequences_fill_the_budget_and_reach_far_positions(
    tmp_path: Path, reader: CorpusReader
) -> None:
    corpus = read_corpus(corpus_file(tmp_path / "corpus.txt"))
    numbers = np.arange(len(corpus))
    drawn = draw_sequences(corpus, numbers, reader, tokens=3000, rng=seeded_rng(1))
    assert 3000 <= sum(map(len, drawn)) < 3200
    assert max(map(len, drawn)) == reader.config.max_tokens
    again = draw_sequences(corpus, numbers, reader, tokens=3000, rng=seeded_rng(1))
    assert all(np.array_equal(a.ids, b.ids) for a, b in zip(drawn, again, strict=True))


def test_some_packed_sequences_are_pairs_whose_second_text_is_of_another_type(
    tmp_path: Path, reader: CorpusReader
) -> None:
    corpus = read_corpus(corpus_file(tmp_path / "corpus.txt"))
    config = reader.config
    drawn = draw_sequences(corpus, np.arange(300), reader, tokens=6000, rng=seeded_rng(0))
    pairs = [one for one in drawn if one.types.any()]
    assert 0 < len(pairs) < len(drawn) / 2
    for one in pairs:
        second = int(np.argmax(one.types))
        assert one.ids[second - 1] == one.ids[-1] == config.sep_id
        assert one.types[second:].all()
        assert (one.ids == config.sep_id).sum() == 2
        assert len(one) <= config.max_tokens


def test_a_corpus_without_any_token_is_refused(tmp_path: Path, reader: CorpusReader) -> None:
    corpus = read_corpus(corpus_file(tmp_path / "corpus.txt", ["\u200b"] * 8))
    with pytest.raises(HplmError) as caught:
        draw_sequences(corpus, np.arange(8), reader, tokens=10, rng=seeded_rng(0))
    assert caught.value.code == "corpus_too_small"


def test_batches_hold_every_sequence_once_within_the_budget(tmp_path: Path, reader: CorpusReader) -> None:
    corpus = read_corpus(corpus_file(tmp_path / "corpus.txt"))
    drawn = draw_sequences(corpus, np.arange(300), reader, tokens=2000, rng=seeded_rng(0))
    groups = make_batches(drawn, batch_tokens=256, rng=seeded_rng(3))
    assert all(len(group) * max(map(len, group)) <= 256 for group in groups)
    batched = sorted(one.ids.tobytes() for group in groups for one in group)
    assert batched == sorted(one.ids.tobytes() for one in drawn)


def test_a_batch_knows_the_fragment_of_every_token(reader: CorpusReader) -> None:
    first, second = (next(reader.sequences(iter([text]))) for text in ("river stone river", "stone river"))
    batch = make_batch([single_text(first), single_text(second)], reader.config)
    on_gpu = make_batch([single_text(first), single_text(second)], reader.config, torch.device("cuda"))
    assert on_gpu.ids.shape == (2, 16)
    assert torch.equal(on_gpu.ids[on_gpu.mask], batch.ids[batch.mask])
    assert torch.equal(batch.tokens_of(batch.ids[:, :, None])[:, 0], batch.ids[batch.mask])
    for row, ids in enumerate((first, second)):
        found = batch.unique[batch.lookup_index[row, : len(ids)].numpy()]
        assert found.tolist() == fragments.extract(ids, reader.config.missing_id).tolist()
        assert batch.ids[row, : len(ids)].tolist() == ids.tolist()
        assert batch.mask[row].sum() == len(ids) == batch.lengths[row]
    assert len(np.unique(batch.unique, axis=0)) == len(batch.unique)


def test_a_batch_knows_whether_each_fragment_is_looked_up_whole_in_part_or_by_its_token_alone(
    reader: CorpusReader,
) -> None:
    config = reader.config
    text = single_text(next(reader.sequences(iter(["river stone"]))))
    batch = make_batch([text, single_text(text.ids[:1])], config)
    assert not batch.levels.any()
    left = fragments.shorten(batch.fragments, fragments.LEVEL_LEFT, config.missing_id)
    assert batch.with_lookups(left).levels.tolist() == [[2, 1, 1, 0], [0, 0, 0, 0]]
    alone = fragments.shorten(batch.fragments, fragments.LEVEL_UNI, config.missing_id)
    assert batch.with_lookups(left).with_lookups(alone).levels.tolist() == [[2, 2, 2, 2], [0, 0, 0, 0]]


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


def test_held_out_texts_are_the_same_for_every_run(texts: TrainingCorpus) -> None:
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
