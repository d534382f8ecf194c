"""What a table lacks: the level at which each fragment of a text would be found."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.hplm import fragments
from inference.hplm.fragments import LEVEL_LEFT, LEVEL_TRI, LEVEL_UNI
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root_config import RootConfig
from tests.unit.tiny import tiny_lower, tiny_root
from tests.unit.workers.training.world import NullReporter, corpus_file
from workers.training.corpus import CorpusReader, Ids, read_corpus
from workers.training.plots import PlotSettings, build_plot
from workers.training.simulated_misses import (
    FragmentFrequencies,
    MissSampler,
    SimulatedTable,
    constant_level,
    shorten_to_levels,
)

MISSING = 99


def gaps_of(texts: list[list[int]], alpha: float, n: int = 3) -> SimulatedTable:
    return SimulatedTable(FragmentFrequencies.of([np.array(text) for text in texts], n, MISSING), alpha)


def levels(gaps: SimulatedTable, text: list[int], *, leave_one_out: bool = False, n: int = 3) -> list[int]:
    whole = fragments.extract(np.array(text), MISSING, n)
    found: list[int] = gaps.levels(whole, leave_one_out=leave_one_out).tolist()
    return found


def test_own_occurrence_of_a_counted_text_does_not_count() -> None:
    gaps = gaps_of([[1, 5, 6, 7, 2]], 100.0)
    assert levels(gaps, [1, 5, 6, 7, 2], leave_one_out=True) == [LEVEL_UNI] * 5


def test_fragments_shared_with_another_text_are_found() -> None:
    gaps = gaps_of([[1, 5, 6, 7, 2], [1, 5, 6, 8, 2]], 100.0)
    # [CLS] before 5, and 5 between [CLS] and 6, stand in both; 6 after 5 does, but not 6 before 7.
    assert levels(gaps, [1, 5, 6, 7, 2], leave_one_out=True) == [
        LEVEL_TRI, LEVEL_TRI, LEVEL_LEFT, LEVEL_UNI, LEVEL_UNI
    ]  # fmt: skip


def test_no_coverage_leaves_the_ends_and_uni_grams() -> None:
    gaps = gaps_of([[1, 5, 6, 7, 2]], 0.0)
    assert levels(gaps, [1, 5, 6, 7, 2])[1:4] == [LEVEL_UNI] * 3


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_reading_everything_at_a_level_leaves_nothing_more(n: int) -> None:
    whole = fragments.extract(np.arange(10), MISSING, n)
    for level in range(fragments.level_count(n)):
        read = shorten_to_levels(whole, constant_level(level)(whole), MISSING)
        assert np.array_equal(read, fragments.shorten(whole, level, MISSING))


@pytest.mark.parametrize(
    ("n", "alpha", "ladder"),
    [
        *((n, alpha, None) for n in (2, 3, 5) for alpha in (30.0, 60.0, 100.0)),
        (3, 60.0, ("trigram", "unigram")),
        (3, 60.0, ("right_bigram", "unigram")),
        (3, 60.0, ("unigram",)),
        (5, 60.0, ("trigram", "left_bigram", "unigram")),
    ],
)
def test_the_gaps_are_those_of_the_table_that_is_built(
    tmp_path_factory: pytest.TempPathFactory, n: int, alpha: float, ladder: tuple[str, ...] | None
) -> None:
    folder = tmp_path_factory.mktemp("gaps")
    root = tiny_root(folder / "checkpoint", n=n)
    if ladder is not None:
        root.config = replace(root.config, ladder=ladder)
    root.save(folder / "root")
    tiny_lower(root).save(folder / "lower")
    corpus = corpus_file(folder / "corpus.txt")
    build_plot(
        root=folder / "root",
        lower=folder / "lower",
        corpus=corpus,
        out=folder / "plot",
        alpha=alpha,
        settings=PlotSettings(precision="float32"),
        reporter=NullReporter(),
        all_unigrams=True,
    )
    table = PlotTable.open(folder / "plot")
    reader = CorpusReader(folder / "root" / "tokenizer.json", root.config)
    sequences = list(reader.sequences(read_corpus(corpus).texts()))
    frequencies = FragmentFrequencies.of(sequences, n, root.config.missing_id)
    gaps = SimulatedTable(frequencies, alpha, root.config.ladder)
    for sequence in sequences[:40]:
        whole = fragments.extract(sequence, root.config.missing_id, n)
        found = gaps.levels(whole, leave_one_out=False)
        expected = np.array(_first_found(table, whole, root.config))
        read = shorten_to_levels(whole, found, root.config.missing_id)
        assert np.array_equal(read, shorten_to_levels(whole, expected, root.config.missing_id))
        rows = PlotChain([table]).search(whole)
        assert np.array_equal(table.keys[rows.row[rows.inverse]], fragments.pack(read))


def _first_found(table: PlotTable, whole: Ids, config: RootConfig) -> list[int]:
    """By plain look-ups of the parts of the ladder's levels, and of all parts at the ends of a text."""
    n, missing = config.n, config.missing_id
    names = fragments.level_names(n)
    at_end = (whole == missing).any(axis=1)
    order = fragments.fallback_order(n)
    hits = [
        (table.find(fragments.pack(fragments.shorten(whole, level, missing))) >= 0)
        & (at_end | (names[level] in config.ladder))
        for level in order
    ]
    return [order[int(np.argmax([hit[row] for hit in hits]))] for row in range(len(whole))]


@given(st.lists(st.lists(st.integers(0, 6), min_size=2, max_size=9), min_size=1, max_size=12), st.data())
def test_a_table_of_more_coverage_never_reads_fewer_tokens(
    texts: list[list[int]], data: st.DataObject
) -> None:
    low = data.draw(st.floats(0, 100))
    less, more = gaps_of(texts, low), gaps_of(texts, data.draw(st.floats(low, 100)))
    for text in texts:
        sizes = [
            [sum(fragments.level_extent(level, 3)) for level in levels(gaps, text)] for gaps in (less, more)
        ]
        assert all(a <= b for a, b in zip(*sizes, strict=True))


def test_patterns_are_drawn_by_their_shares() -> None:
    gaps = gaps_of([[1, 5, 6, 7, 2]], 100.0)
    whole = fragments.extract(np.array([1, 5, 6, 7, 2]), MISSING)
    rng = np.random.default_rng(0)
    patterns = MissSampler(gaps, complete_share=0.5, table_share=0.0)
    drawn = [patterns.sample(whole, rng, MISSING) for _ in range(400)]
    complete = sum(np.array_equal(read, whole) for read in drawn) / 400
    assert complete == pytest.approx(0.5, abs=0.08)
    alone = fragments.shorten(whole, LEVEL_UNI, MISSING)
    assert all(np.array_equal(read, whole) or np.array_equal(read, alone) for read in drawn)
