"""Counting fragments out of core, and choosing those that cover a share of them."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.errors import HplmError
from inference.hplm import fragments
from workers.training import fragment_counts
from workers.training.fragment_counts import CHOSEN_FILE, FragmentTables, choose_fragments
from workers.training.ngrams import FULL, Packing, Window
from workers.training.progress import Cancelled

Fragment = tuple[int, ...]
PACKING = Packing(Window(2, 9))
# Too many ids for one number: the fragments of this window take two.
WIDE = Packing(Window(5, 30_522))

occurrences = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=120)
alphas = st.one_of(st.integers(0, 100).map(float), st.floats(0, 100))
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("counting")


def tables(folder: Path, packing: Packing = PACKING, *, memory_mb: int = 64) -> FragmentTables:
    where = folder / f"scratch{len(list(folder.iterdir()))}"
    return FragmentTables(where, packing, memory_mb=memory_mb, threads=1)


def load(opened: FragmentTables, folder: Path, *parts: Sequence[Fragment] | np.ndarray) -> None:
    """Count the parts apart and put the counts together."""
    paths = []
    for number, part in enumerate(parts):
        opened.add(FULL, np.array(part, dtype=np.int64).reshape(len(part), -1))
        paths.append(folder / f"part{number}.parquet")
        opened.save_counts(FULL, paths[-1])
    opened.load_counts(FULL, paths)


def in_one_number(fragments: np.ndarray) -> np.ndarray:
    """A key for each fragment of four ids below 51."""
    return fragments @ (51 ** np.arange(4))


def found(opened: FragmentTables) -> list[Fragment]:
    return sorted(tuple(row) for part in opened.fragments(FULL) for row in part.tolist())


@quick
@given(values=occurrences, alpha=alphas)
def test_the_most_frequent_that_cover_alpha_percent_are_kept_and_no_more(
    values: list[Fragment], alpha: float, folder: Path
) -> None:
    expected, covered = [], 0
    for fragment, count in sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])):
        if covered * 100 >= Fraction(alpha) * len(values):
            break
        expected.append(fragment)
        covered += count
    with tables(folder) as opened:
        load(opened, folder, values)
        assert opened.select_covering(FULL, alpha) == (len(expected), covered)
        assert found(opened) == sorted(expected)


@quick
@given(parts=st.lists(occurrences, min_size=1, max_size=4))
def test_counting_in_parts_gives_what_counting_at_once_gives(
    parts: list[list[Fragment]], folder: Path
) -> None:
    expected = Counter(value for part in parts for value in part)
    with tables(folder) as opened:
        load(opened, folder, *parts)
        assert opened.total(FULL) == (len(expected), expected.total())
        assert found(opened) == sorted(expected)


def test_fragments_of_two_numbers_are_told_apart(folder: Path) -> None:
    values = [(1, 2, 3, 4, 5), (1, 2, 3, 4, 6), (1, 2, 3, 4, 5), (30_522, 2, 3, 4, 5)]
    with tables(folder, WIDE) as opened:
        load(opened, folder, values)
        assert opened.total(FULL) == (3, 4)
        assert opened.select_covering(FULL, 50) == (1, 2)
        assert found(opened) == [(1, 2, 3, 4, 5)]


def test_counts_larger_than_memory_use_the_disk(folder: Path) -> None:
    """Two million different fragments are some 100 MB to a hash table that may have 24."""
    packing = Packing(Window(2, 5_000))
    numbers = np.random.default_rng(0).permutation(2_000_000)
    values = np.stack((numbers // 5_000, numbers % 5_000), axis=1)
    with tables(folder, packing, memory_mb=24) as opened:
        for part in np.array_split(values, 10):
            opened.add(FULL, part)
        opened.add(FULL, values[:3])
        opened.save_counts(FULL, folder / "counts.parquet")
        opened.load_counts(FULL, [folder / "counts.parquet"])
        assert opened.total(FULL) == (2_000_000, 2_000_003)
        assert opened.select_covering(FULL, 0.0001) == (2, 4)


def test_counts_without_memory_and_disk_are_out_of_memory(folder: Path) -> None:
    values = np.random.default_rng(0).integers(0, 5_000, (500_000, 2)).tolist()
    opened = tables(folder, Packing(Window(2, 5_000)), memory_mb=1)
    with opened, pytest.raises(HplmError) as caught:
        load(opened, folder, values)
    assert caught.value.code == "out_of_memory"


def test_a_long_query_stops_when_the_job_must(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_counts, "CHECK_INTERVAL_S", 0.001)
    asked = iter([None, None, Cancelled()])

    def watch() -> None:
        if (answer := next(asked)) is not None:
            raise answer

    packing = Packing(Window(2, 5_000))
    values = np.random.default_rng(0).integers(0, 5_000, (1_000_000, 2))
    opened = FragmentTables(folder / "long", packing, memory_mb=64, threads=1, check=watch)
    with opened, pytest.raises(Cancelled):
        load(opened, folder, values)


def test_longer_windows_keep_the_short_ends_of_texts_and_the_frequent_long_ones(tmp_path: Path) -> None:
    window = Window(4, 50)
    texts = [np.array([1, *middle, 2]) for middle in ([7, 8, 9, 7], [7, 8, 9, 8], [7, 8, 5], [6, 8, 5])]
    with FragmentTables(tmp_path / "count", Packing(window), memory_mb=64, threads=1) as opened:
        for kind, part in window.of_sequences(texts).items():
            opened.add(kind, part)
        for kind in window.kinds:
            opened.save_counts(kind, tmp_path / f"{kind}.parquet")
        out = tmp_path / CHOSEN_FILE
        report = choose_fragments(
            opened,
            window,
            [tmp_path],
            out,
            alpha=20,
            ladder=fragments.level_names(4),
            vocabulary=None,
            key_of=in_one_number,
            on_progress=lambda _: None,
        )
    chosen = {tuple(row) for row in np.fromfile(out, dtype=np.int32).reshape(-1, 4).tolist()}
    assert report["rows"] == len(chosen)
    assert {(50, 50, 1, 7), (50, 50, 1, 6)} <= chosen
    assert (50, 1, 7, 8) in chosen
    assert (50, 1, 6, 8) not in chosen
    assert {(50, 50, token, 50) for token in (1, 2, 5, 6, 7, 8, 9)} <= chosen
    assert (50, 7, 8, 50) in chosen
    assert set(report["coverage"]) == {"4-gram", "trigram", "bigram"}
