"""Building a PLOT in parts that any process can do: count a piece of the corpus, compute some of the vectors.

A lost part is repeated alone. The table does not depend on which process did which part.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from inference.hplm import fragments
from inference.hplm.artifact_files import read_artifact_json
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotTable
from inference.hplm.plot_writer import INDEX_BYTES_PER_ROW, write_plot
from inference.hplm.quantization import row_dtype
from inference.hplm.root_config import RootConfig
from inference.text.tokenization import ROOT_FILE, TOKENIZER_FILE
from versiontree.job_settings import TableSettings
from workers.training.corpus import CorpusReader, byte_ranges, texts_between
from workers.training.disk import Report, atomic_folders, build_once
from workers.training.fragment_counts import CHOSEN_FILE, FragmentTables, choose_fragments
from workers.training.ngrams import Ids, Packing, Window
from workers.training.precision import Precision, configure_torch
from workers.training.row_selection import choose_best

VECTORS_FILE: Final = "vectors.f2"
BATCHES_OF_A_PIECE: Final = 32
# Texts between two progress reports, and tokens that are counted together.
_REPORT_EVERY = 200
# More than the headers of a table's files take.
_FIXED_BYTES = 65_536
_TOKENS_PER_INSERT = 250_000

Piece = tuple[int, int]
ProgressCallback = Callable[[int], None]
"""Receives how much of a part is done; raises to cancel."""


@dataclass(frozen=True, kw_only=True)
class PlotSettings:
    """vectors: their number format. fragments_per_batch: computed together. memory_mb: DuckDB's memory limit,
    beyond which it spills to disk. piece_bytes: of the corpus, counted as one part.
    """

    vectors: str = TableSettings.vectors
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    fragments_per_batch: int = 2048
    memory_mb: int = 768
    piece_bytes: int = 32 * 2**20


@dataclass(frozen=True)
class PlotInputs:
    """What a table is built from. all_unigrams: True for the table of a root. above: the tables of its
    ancestors. Its rows are those that cover `alpha` % of the corpus, or the best that `budget_mb` holds:
    exactly one of both is set.
    """

    root: Path
    lower: Path
    corpus: Path
    all_unigrams: bool
    settings: PlotSettings
    alpha: float | None = None
    budget_mb: float | None = None
    above: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if (self.alpha is None) == (self.budget_mb is None):
            raise ValueError("a table is built with a coverage (alpha) or a size (budget_mb)")


class PlotBuilder:
    """The parts of one build. Each writes a sealed folder, and returns at once if that exists."""

    def __init__(self, inputs: PlotInputs) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self.config = RootConfig.from_json(read_artifact_json(inputs.root / ROOT_FILE))
        self.window = Window(self.config.n, self.config.missing_id)
        self._packing = Packing(self.window)

    def count_pieces(self) -> list[Piece]:
        """The byte ranges of the corpus to count."""
        return byte_ranges(self._inputs.corpus, self._settings.piece_bytes)

    def count(self, piece: Piece, folder: Path, on_progress: ProgressCallback) -> Report:
        """Count the fragments of a range of the corpus; progress is in bytes."""
        return build_once(folder, lambda aside: self._count(piece, aside, on_progress))

    def choose(self, counted: Sequence[Path], folder: Path, on_progress: ProgressCallback) -> Report:
        """Merge the counts and write the fragments to keep; progress is always 0."""
        return build_once(folder, lambda aside: self._choose(counted, aside, on_progress))

    def vector_pieces(self, rows: int) -> list[Piece]:
        """The ranges of the chosen fragments; whole batches, so vectors do not depend on the ranges."""
        size = self._settings.fragments_per_batch * BATCHES_OF_A_PIECE
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]

    def compute(self, piece: Piece, chosen: Path, folder: Path, on_progress: ProgressCallback) -> Report:
        """Compute the vectors of a range of the chosen fragments; progress is in fragments."""
        return build_once(folder, lambda aside: self._compute(piece, chosen, aside, on_progress))

    def write(
        self,
        chosen: Path,
        pieces: Sequence[Piece],
        computed: Sequence[Path],
        out: Path,
        on_progress: ProgressCallback,
    ) -> dict[str, Any]:
        """Write the table from its parts and return its plot.json; progress is in fragments."""
        chosen_by = {"alpha": self._inputs.alpha, "budget_mb": self._inputs.budget_mb}
        meta = {
            "missing_id": self.config.missing_id,
            **{name: value for name, value in chosen_by.items() if value is not None},
            "ladder": self.config.ladder,
            "lower_digest": self._inputs.lower.name,
        }
        with atomic_folders(out):
            return write_plot(
                out,
                self._blocks(chosen, pieces, computed, on_progress),
                meta,
                self.lower.composition,
                n=self.window.n,
                dtype=self._settings.vectors,
            )

    def batches(self, piece: Piece, on_progress: ProgressCallback) -> Iterator[list[Ids]]:
        """The sequences of a range of the corpus, a tokenised batch at a time."""
        # The tokenizer reads its number of threads once per process.
        os.environ.setdefault("RAYON_NUM_THREADS", str(self._threads))
        reader = CorpusReader(self._inputs.root / TOKENIZER_FILE, self.config)

        def texts() -> Iterator[str]:
            for number, (end, text) in enumerate(texts_between(self._inputs.corpus, *piece)):
                if number % _REPORT_EVERY == 0:
                    on_progress(min(end, piece[1]) - piece[0])
                yield text

        return reader.sequence_batches(texts())

    def _count(self, piece: Piece, folder: Path, on_progress: ProgressCallback) -> Report:
        empty = np.empty((0, self.window.n), dtype=np.int64)
        tokens = position = 0

        def moved(done: int) -> None:
            nonlocal position
            position = done
            on_progress(done)

        with self._tables(folder, lambda: on_progress(position)) as tables:
            for kind in self.window.kinds:
                tables.add(kind, empty)
            for sequences in _merged(self.batches(piece, moved)):
                tokens += sum(map(len, sequences))
                for kind, found in self.window.of_sequences(sequences).items():
                    tables.add(kind, found)
            for kind in self.window.kinds:
                moved(piece[1] - piece[0])
                tables.save_counts(kind, folder / f"{kind}.parquet")
        return {"tokens": tokens}

    @contextmanager
    def _tables(self, folder: Path, check: Callable[[], None]) -> Iterator[FragmentTables]:
        scratch = folder / "scratch"
        with FragmentTables(
            scratch,
            self._packing,
            memory_mb=self._settings.memory_mb,
            threads=self._threads,
            check=check,
        ) as tables:
            yield tables
        shutil.rmtree(scratch)

    def _choose(self, counted: Sequence[Path], folder: Path, on_progress: ProgressCallback) -> Report:
        with self._tables(folder, lambda: on_progress(0)) as tables:
            given = (tables, self.window, counted, folder / CHOSEN_FILE)
            vocabulary = self.config.vocab if self._inputs.all_unigrams else None
            if self._inputs.alpha is not None:
                return choose_fragments(
                    *given,
                    alpha=self._inputs.alpha,
                    ladder=self.config.ladder,
                    vocabulary=vocabulary,
                    key_of=fragments.pack,
                    on_progress=on_progress,
                )
            return choose_best(
                *given,
                rows=self._rows_of_budget(),
                ladder=self.config.ladder,
                above=[PlotTable.open(table).keys for table in self._inputs.above],
                vocabulary=vocabulary,
                key_of=fragments.pack,
                on_progress=on_progress,
            )

    def _rows_of_budget(self) -> int:
        """How many rows fit the budget beside the composition."""
        composition = sum(4 * value.numel() for value in self.lower.composition.tensors().values())
        row = row_dtype(self._settings.vectors, self.window.n, self.config.hidden)
        room = 1e6 * (self._inputs.budget_mb or 0) - composition - _FIXED_BYTES
        return max(0, int(room // (row.itemsize + INDEX_BYTES_PER_ROW)))

    def _compute(self, piece: Piece, chosen: Path, folder: Path, on_progress: ProgressCallback) -> Report:
        first, last = piece
        size = self._settings.fragments_per_batch
        rows = self._chosen_fragments(chosen)
        with (folder / VECTORS_FILE).open("xb") as file:
            for start in range(first, last, size):
                on_progress(start - first)
                batch = np.asarray(rows[start : min(start + size, last)], dtype=np.int64)
                with torch.no_grad(), self._precision.autocast():
                    vectors = self.lower(torch.from_numpy(batch))
                file.write(vectors.float().cpu().numpy().astype(np.float16).data)
        on_progress(last - first)
        return {"rows": last - first}

    def _blocks(
        self, chosen: Path, pieces: Sequence[Piece], computed: Sequence[Path], on_progress: ProgressCallback
    ) -> Iterator[tuple[Ids, npt.NDArray[np.float16]]]:
        rows = self._chosen_fragments(chosen)
        size = self._settings.fragments_per_batch
        size_of_row = self.window.n * self.config.hidden
        for (first, last), folder in zip(pieces, computed, strict=True):
            with (folder / VECTORS_FILE).open("rb") as file:
                for start in range(first, last, size):
                    on_progress(start)
                    batch = np.asarray(rows[start : min(start + size, last)], dtype=np.int64)
                    vectors = np.fromfile(file, dtype=np.float16, count=len(batch) * size_of_row)
                    yield batch, vectors.reshape(len(batch), self.window.n, -1)
        on_progress(len(rows))

    def _chosen_fragments(self, folder: Path) -> npt.NDArray[np.int32]:
        file = folder / CHOSEN_FILE
        if not file.stat().st_size:  # an empty file cannot be mapped
            return np.empty((0, self.window.n), dtype=np.int32)
        return np.memmap(file, dtype=np.int32, mode="r").reshape(-1, self.window.n)

    @cached_property
    def _precision(self) -> Precision:
        settings = self._settings
        return configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)

    @property
    def _threads(self) -> int:
        assert self._precision  # configures the threads of this process
        return torch.get_num_threads()

    @cached_property
    def lower(self) -> LocalLower:
        """The layers that compute the vectors; loaded on first use."""
        return LocalLower.load(self._inputs.lower, self._precision.device)


def _merged(batches: Iterator[list[Ids]]) -> Iterator[list[Ids]]:
    """Merge batches to about `_TOKENS_PER_INSERT` tokens."""
    merged: list[Ids] = []
    tokens = 0
    for batch in batches:
        merged.extend(batch)
        tokens += sum(map(len, batch))
        if tokens >= _TOKENS_PER_INSERT:
            yield merged
            merged, tokens = [], 0
    if merged:
        yield merged
