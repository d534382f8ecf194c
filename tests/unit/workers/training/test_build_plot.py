"""Building a table from a corpus, and merging tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inference.hplm import fragments, plot_writer
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotTable
from tests.unit.plot_lookups import all_vectors
from tests.unit.tiny import tiny_lower, tiny_root
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import (
    CancelAt,
    NullReporter,
    Recorder,
    contents,
    corpus_file,
    repeating_texts,
)
from workers.training.plot_shards import PlotInputs
from workers.training.plots import PlotSettings, build_plot, merge_plots
from workers.training.progress import Cancelled, Reporter

SMALL = PlotSettings(precision="float32", fragments_per_batch=16)
IN_MANY_PARTS = replace(SMALL, fragments_per_batch=2, piece_bytes=700)


Built = tuple[Path, dict[str, Any]]


def build(
    branch: Branch,
    folder: Path,
    *,
    alpha: float | None = 50,
    budget_mb: float | None = None,
    above: Sequence[Path] = (),
    all_unigrams: bool = False,
    reporter: Reporter | None = None,
    settings: PlotSettings = SMALL,
    staging: Path | None = None,
) -> dict[str, Any]:
    return build_plot(
        root=branch.root,
        lower=branch.lower,
        corpus=corpus_file(folder / "corpus.txt", repeating_texts(100)),
        out=folder / "out",
        alpha=alpha if budget_mb is None else None,
        budget_mb=budget_mb,
        above=above,
        settings=settings,
        reporter=reporter or NullReporter(),
        all_unigrams=all_unigrams,
        staging=staging,
    )


@pytest.fixture(scope="module")
def built(branch: Branch, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A folder with a table in ``out``, and what was reported; to be left as it is."""
    folder = tmp_path_factory.mktemp("built")
    return folder, build(branch, folder)


@pytest.fixture(scope="module")
def uninterrupted(branch: Branch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in many parts."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    build(branch, folder, settings=IN_MANY_PARTS)
    return folder / "out"


def kept(folder: Path) -> dict[int, set[tuple[int, ...]]]:
    """The fragments of a table by level."""
    table = PlotTable.open(folder / "out")
    rows = fragments.unpack(table.keys)
    levels = fragments.fragment_levels(rows, table.missing_id)
    return {level: {tuple(row) for row in rows[levels == level].tolist()} for level in fragments.LEVELS}


def of_corpus(branch: Branch) -> list[list[tuple[int, ...]]]:
    missing = branch.loaded.config.missing_id
    texts = [branch.loaded.tokenizer.encode(text).ids for text in repeating_texts(100)]
    return [[tuple(f) for f in fragments.extract(ids, missing).tolist()] for ids in texts]


def test_the_most_frequent_trigrams_cover_the_share_asked_for(branch: Branch, built: Built) -> None:
    folder, report = built
    counts = Counter(fragment for text in of_corpus(branch) for fragment in text[1:-1])
    found = kept(folder)[fragments.LEVEL_TRI]
    covered = sum(counts[fragment] for fragment in found)
    least = min(counts[fragment] for fragment in found)
    assert covered >= counts.total() / 2 > covered - least
    assert least >= max(count for fragment, count in counts.items() if fragment not in found)
    assert report["coverage"]["trigram"] == pytest.approx(covered / counts.total())
    assert report["fragments"]["trigram"] == len(counts)


def test_bigrams_come_on_both_sides_and_ends_and_words_are_always_there(
    branch: Branch, tmp_path: Path
) -> None:
    missing = branch.loaded.config.missing_id
    build(branch, tmp_path, alpha=0)
    texts = of_corpus(branch)
    levels = kept(tmp_path)
    assert levels[fragments.LEVEL_TRI] == set()
    assert levels[fragments.LEVEL_LEFT] == {text[-1] for text in texts}
    assert levels[fragments.LEVEL_RIGHT] == {text[0] for text in texts}
    assert levels[fragments.LEVEL_UNI] == {(missing, f[1], missing) for text in texts for f in text}


@pytest.mark.parametrize("vectors", ["float16", "int8"])
def test_a_budget_is_filled_with_the_most_frequent_fragments_and_never_exceeded(
    branch: Branch, tmp_path: Path, vectors: str
) -> None:
    settings, megabytes = replace(SMALL, vectors=vectors), 0.15
    report = build(branch, tmp_path, budget_mb=megabytes, settings=settings, above=[branch.plot])
    row = report["bytes"] / report["rows"]
    assert 0 <= megabytes * 1e6 - report["bytes"] < 65_536 + 2 * row
    worth = worth_of_corpus(branch)
    chosen = {fragment for level in kept(tmp_path).values() for fragment in level}
    least = min(worth[fragment] for fragment in chosen)
    assert len(chosen) == report["rows"] < len(worth)
    assert least >= max(value for fragment, value in worth.items() if fragment not in chosen)


def worth_of_corpus(branch: Branch) -> dict[tuple[int, ...], float]:
    """The count of each fragment of the corpus, and a tenth of it where a row of the root or a shorter part
    of the fragment stands in."""
    texts, missing = of_corpus(branch), branch.loaded.config.missing_id
    counts = Counter(fragment for text in texts for fragment in text)
    parts = Counter[tuple[int, ...]]()
    for text in texts:
        parts.update((missing, centre, missing) for _, centre, _ in text)
        parts.update((left, centre, missing) for left, centre, _ in text[1:])
        parts.update((missing, centre, right) for _, centre, right in text[:-1])
    root = PlotTable.open(branch.plot)
    held = {fragment for fragment in counts if root.find(fragments.pack(np.array([fragment])))[0] >= 0}
    whole = {fragment: count * (0.1 if fragment in held else 1) for fragment, count in counts.items()}
    return {part: 0.1 * count for part, count in parts.items()} | whole


def test_a_root_has_the_uni_grams_of_its_vocabulary_whatever_the_budget(
    branch: Branch, tmp_path: Path
) -> None:
    report = build(branch, tmp_path, budget_mb=0.001, all_unigrams=True)
    assert report["rows"] == report["levels"]["unigram"] == branch.loaded.config.vocab


def test_a_budget_that_holds_all_gives_the_table_of_full_coverage(branch: Branch, tmp_path: Path) -> None:
    keys = []
    for name, budget_mb in (("all", None), ("budget", 100.0)):
        (tmp_path / name).mkdir()
        build(branch, tmp_path / name, alpha=100, budget_mb=budget_mb, all_unigrams=True)
        keys.append(PlotTable.open(tmp_path / name / "out").keys.tolist())
    assert keys[0] == keys[1]


def test_a_budget_in_many_parts_gives_the_same_table(branch: Branch, tmp_path: Path) -> None:
    for name, settings in (("one", SMALL), ("many", IN_MANY_PARTS)):
        (tmp_path / name).mkdir()
        build(branch, tmp_path / name, budget_mb=0.1, settings=settings)
    tables = [PlotTable.open(tmp_path / name / "out") for name in ("one", "many")]
    assert tables[0].keys.tolist() == tables[1].keys.tolist()


@pytest.mark.parametrize("chosen", [{}, {"alpha": 50, "budget_mb": 1}])
def test_rows_are_chosen_by_coverage_or_by_size(
    branch: Branch, tmp_path: Path, chosen: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="coverage"):
        PlotInputs(branch.root, branch.lower, tmp_path, False, SMALL, **chosen)


def test_rows_equal_the_states_of_the_lower_layers(branch: Branch, built: Built) -> None:
    table, lower = PlotTable.open(built[0] / "out"), LocalLower.load(branch.lower)
    with torch.no_grad():
        expected = lower(torch.from_numpy(fragments.unpack(table.keys)))
    torch.testing.assert_close(torch.from_numpy(all_vectors(table)).float(), expected, atol=1e-2, rtol=1e-2)
    assert torch.equal(table.composition.position_bias, lower.position_bias)


def test_every_stage_reaches_its_end(branch: Branch, tmp_path: Path) -> None:
    recorder = Recorder()
    report = build(branch, tmp_path, reporter=recorder, settings=IN_MANY_PARTS)
    names = [name for name, _, _ in recorder.stages]
    assert names == ["count fragments", "choose fragments", "compute fragments", "write table"]
    for name, total, steps in recorder.stages:
        assert steps == sorted(steps)
        assert steps[-1] == total, name
    assert recorder.stages[-1][1] == report["rows"]


@pytest.mark.parametrize("check", [1, 9, 60])
def test_a_cancel_is_obeyed_within_a_step_and_leaves_nothing(
    branch: Branch, tmp_path: Path, check: int
) -> None:
    cancel = CancelAt(check)
    with pytest.raises(Cancelled):
        build(branch, tmp_path, reporter=cancel, settings=IN_MANY_PARTS)
    assert cancel.late_steps == 0
    assert list(contents(tmp_path)) == ["corpus.txt"]


@pytest.mark.parametrize("check", [2, 16, 60])
def test_a_build_that_stopped_anywhere_goes_on_to_the_same_table(
    branch: Branch, tmp_path: Path, uninterrupted: Path, check: int
) -> None:
    staging = tmp_path / "kept"
    with pytest.raises(Cancelled):
        build(branch, tmp_path, reporter=CancelAt(check), settings=IN_MANY_PARTS, staging=staging)
    before = {path: path.stat().st_ino for path in staging.iterdir()}
    build(branch, tmp_path, settings=IN_MANY_PARTS, staging=staging)
    assert contents(tmp_path / "out") == contents(uninterrupted)
    assert {path: path.stat().st_ino for path in before} == before


def test_a_part_that_the_disk_damaged_is_done_again(
    branch: Branch, tmp_path: Path, uninterrupted: Path
) -> None:
    staging = tmp_path / "kept"
    (tmp_path / "sound").mkdir()
    build(branch, tmp_path / "sound", settings=IN_MANY_PARTS, staging=staging)
    damaged = staging / "vectors-0" / "vectors.f2"
    damaged.write_bytes(bytes(damaged.stat().st_size))
    build(branch, tmp_path, settings=IN_MANY_PARTS, staging=staging)
    assert contents(tmp_path / "out") == contents(uninterrupted)


def test_a_folder_made_for_the_table_stays_and_is_empty_after_a_cancel(
    branch: Branch, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(Cancelled):
        build(branch, tmp_path, reporter=CancelAt(4))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_full_coverage_finds_every_window_of_the_corpus_whole_and_by_its_parts(
    tmp_path: Path, n: int
) -> None:
    root = tiny_root(tmp_path / "checkpoint", n=n)
    root.save(tmp_path / "root")
    tiny_lower(root).save(tmp_path / "lower")
    report = build_plot(
        root=tmp_path / "root",
        lower=tmp_path / "lower",
        corpus=corpus_file(tmp_path / "corpus.txt", repeating_texts(40)),
        out=tmp_path / "out",
        alpha=100,
        settings=SMALL,
        reporter=NullReporter(),
        all_unigrams=True,
    )
    table, missing = PlotTable.open(tmp_path / "out"), root.config.missing_id
    for text in repeating_texts(40):
        exact = fragments.extract(root.tokenizer.encode(text).ids, missing, n)
        assert (table.find(fragments.pack(exact)) >= 0).all()
        names = {"left_bigram", "right_bigram", "trigram", "unigram"}
        parts = [
            level for level in range(fragments.level_count(n)) if fragments.level_name(level, n) in names
        ]
        for level in parts:
            whole = exact[(exact != missing).all(axis=1)]
            assert (table.find(fragments.pack(fragments.shorten(whole, level, missing))) >= 0).all()
    assert report["levels"]["unigram"] == root.config.vocab


def test_vectors_of_eight_bits_take_half_the_room_and_hardly_differ(branch: Branch, tmp_path: Path) -> None:
    sizes, tables = {}, {}
    for vectors in ("float16", "int8"):
        (tmp_path / vectors).mkdir()
        report = build(branch, tmp_path / vectors, settings=replace(SMALL, vectors=vectors))
        assert report["vectors"] == vectors
        tables[vectors] = PlotTable.open(tmp_path / vectors / "out")
        sizes[vectors] = (tmp_path / vectors / "out" / "vectors.bin").stat().st_size
    exact, rough = all_vectors(tables["float16"]), all_vectors(tables["int8"])
    assert sizes["int8"] < 0.6 * sizes["float16"] + 4 * len(exact) * 3
    largest = np.abs(exact).max(axis=-1, keepdims=True).astype(np.float32)
    assert (np.abs(exact.astype(np.float32) - rough) <= largest / 127).all()


@pytest.fixture
def small_merge_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_writer, "MERGE_BATCH", 16)


@pytest.mark.usefixtures("small_merge_batches")
def test_merge_reports_its_progress(branch: Branch, tmp_path: Path) -> None:
    recorder = Recorder()
    report = merge_plots(plots=[branch.plot, branch.plot], out=tmp_path / "out", reporter=recorder)
    ((name, total, steps),) = recorder.stages
    assert (name, total) == ("merge tables", report["before"]["rows"])
    assert steps == [*range(0, report["rows"], 16), total]


@pytest.mark.usefixtures("small_merge_batches")
def test_canceled_merge_stops_at_once_and_leaves_nothing(branch: Branch, tmp_path: Path) -> None:
    cancel = CancelAt(3)
    with pytest.raises(Cancelled):
        merge_plots(plots=[branch.plot, branch.plot], out=tmp_path / "out", reporter=cancel)
    assert cancel.left == 0
    assert cancel.late_steps == 0
    assert not (tmp_path / "out").exists()
