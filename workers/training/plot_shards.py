"""Building a PLOT in parts that any process can do: counting a piece of the corpus, computing some of the
chosen fragments. A part that is lost is done again alone; the table is the same however the parts were dealt.
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
from inference.hplm.plot_writer import write_plot
from inference.hplm.root import ROOT_FILE, TOKENIZER_FILE
from inference.hplm.root_config import RootConfig
from workers.training.corpus import CorpusReader, byte_ranges, texts_between
from workers.training.disk import Report, atomic_folders, build_once
from workers.training.fragment_counts import CHOSEN_FILE, FragmentTables, choose_fragments
from workers.training.ngrams import Ids, Packing, Window
from workers.training.precision import Arithmetic, arithmetic

VECTORS_FILE: Final = "vectors.f2"
BATCHES_OF_A_PIECE: Final = 32
# Texts between two looks at whether the job is cancelled, and tokens that are noted together.
_CHECK_EVERY = 200
_NOTED_AT_ONCE = 250_000

Piece = tuple[int, int]
Told = Callable[[int], None]
"""Is told how much of a part is done, and raises when the work must stop."""


@dataclass(frozen=True)
class PlotSettings:
    """fragments_per_batch: computed together; vectors: "float16" or "int8"; memory_mb: what counting may hold
    in memory before it goes to disk; piece_bytes: of the corpus, counted as one part.
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    fragments_per_batch: int = 2048
    vectors: str = "float16"
    memory_mb: int = 768
    piece_bytes: int = 32 * 2**20


@dataclass(frozen=True)
class PlotInputs:
    """What a table is built from; `alpha` in %, `all_unigrams` for the table of a root."""

    root: Path
    lower: Path
    corpus: Path
    alpha: float
    all_unigrams: bool
    settings: PlotSettings


class PlotParts:
    """The parts of one build. Each leaves a sealed folder, and is done already where there is one."""

    def __init__(self, inputs: PlotInputs) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self.config = RootConfig.from_json(read_artifact_json(inputs.root / ROOT_FILE))
        self.window = Window(self.config.n, self.config.missing_id)
        self._packing = Packing(self.window)

    def count_pieces(self) -> list[Piece]:
        """Ranges of bytes of the corpus."""
        return byte_ranges(self._inputs.corpus, self._settings.piece_bytes)

    def count(self, piece: Piece, folder: Path, told: Told) -> Report:
        """Count the fragments of a range of the corpus; `told` hears of bytes."""
        return build_once(folder, lambda aside: self._count(piece, aside, told))

    def choose(self, counted: Sequence[Path], folder: Path, told: Told) -> Report:
        """Put the counts together and write down the fragments worth keeping; `told` hears nothing but 0."""
        return build_once(folder, lambda aside: self._choose(counted, aside, told))

    def vector_pieces(self, rows: int) -> list[Piece]:
        """Ranges of the chosen fragments. Batches never straddle them, so vectors do not depend on them."""
        size = self._settings.fragments_per_batch * BATCHES_OF_A_PIECE
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]

    def compute(self, piece: Piece, chosen: Path, folder: Path, told: Told) -> Report:
        """Compute the vectors of a range of the chosen fragments; `told` hears of fragments."""
        return build_once(folder, lambda aside: self._compute(piece, chosen, aside, told))

    def write(
        self, chosen: Path, pieces: Sequence[Piece], computed: Sequence[Path], out: Path, told: Told
    ) -> dict[str, Any]:
        """Write the table from its parts and return what its plot.json says; `told` hears of fragments."""
        meta = {
            "missing_id": self.config.missing_id,
            "alpha": self._inputs.alpha,
            "lower_digest": self._inputs.lower.name,
        }
        with atomic_folders(out):
            return write_plot(
                out,
                self._blocks(chosen, pieces, computed, told),
                meta,
                self.lower.composition,
                n=self.window.n,
                dtype=self._settings.vectors,
            )

    def batches(self, piece: Piece, told: Told) -> Iterator[list[Ids]]:
        """The sequences of a range of the corpus, as many at a time as are tokenised together."""
        # The tokenizer's own threads, asked for once in a process.
        os.environ.setdefault("RAYON_NUM_THREADS", str(self._threads))
        reader = CorpusReader(self._inputs.root / TOKENIZER_FILE, self.config)

        def watched() -> Iterator[str]:
            texts = texts_between(self._inputs.corpus, *piece)
            for number, (end, text) in enumerate(texts):
                if number % _CHECK_EVERY == 0:
                    told(min(end, piece[1]) - piece[0])
                yield text

        return reader.sequence_batches(watched())

    def _count(self, piece: Piece, folder: Path, told: Told) -> Report:
        nothing = np.empty((0, self.window.n), dtype=np.int64)
        tokens = reached = 0

        def heard(done: int) -> None:
            nonlocal reached
            reached = done
            told(done)

        with self._tables(folder, lambda: told(reached)) as tables:
            for kind in self.window.kinds:
                tables.add(kind, nothing)
            for sequences in _gathered(self.batches(piece, heard)):
                tokens += sum(map(len, sequences))
                for kind, found in self.window.of_sequences(sequences).items():
                    tables.add(kind, found)
            for kind in self.window.kinds:
                heard(piece[1] - piece[0])
                tables.save_counts(kind, folder / f"{kind}.parquet")
        return {"tokens": tokens}

    @contextmanager
    def _tables(self, folder: Path, watch: Callable[[], None]) -> Iterator[FragmentTables]:
        scratch = folder / "scratch"
        with FragmentTables(
            scratch,
            self._packing,
            memory_mb=self._settings.memory_mb,
            threads=self._threads,
            watch=watch,
        ) as tables:
            yield tables
        shutil.rmtree(scratch)

    def _choose(self, counted: Sequence[Path], folder: Path, told: Told) -> Report:
        with self._tables(folder, lambda: told(0)) as tables:
            return choose_fragments(
                tables,
                self.window,
                counted,
                folder / CHOSEN_FILE,
                alpha=self._inputs.alpha,
                vocabulary=self.config.vocab if self._inputs.all_unigrams else None,
                key_of=fragments.pack,
                told=told,
            )

    def _compute(self, piece: Piece, chosen: Path, folder: Path, told: Told) -> Report:
        first, last = piece
        size = self._settings.fragments_per_batch
        wanted = self._chosen(chosen)
        with (folder / VECTORS_FILE).open("xb") as file:
            for start in range(first, last, size):
                told(start - first)
                batch = np.asarray(wanted[start : min(start + size, last)], dtype=np.int64)
                with torch.no_grad(), self._arithmetic.autocast():
                    vectors = self.lower(torch.from_numpy(batch).to(self._arithmetic.device))
                file.write(vectors.float().cpu().numpy().astype(np.float16).data)
        told(last - first)
        return {"rows": last - first}

    def _blocks(
        self, chosen: Path, pieces: Sequence[Piece], computed: Sequence[Path], told: Told
    ) -> Iterator[tuple[Ids, npt.NDArray[np.float16]]]:
        wanted = self._chosen(chosen)
        size = self._settings.fragments_per_batch
        row = self.window.n * self.config.hidden
        for (first, last), folder in zip(pieces, computed, strict=True):
            with (folder / VECTORS_FILE).open("rb") as file:
                for start in range(first, last, size):
                    told(start)
                    batch = np.asarray(wanted[start : min(start + size, last)], dtype=np.int64)
                    vectors = np.fromfile(file, dtype=np.float16, count=len(batch) * row)
                    yield batch, vectors.reshape(len(batch), self.window.n, -1)
        told(len(wanted))

    def _chosen(self, folder: Path) -> npt.NDArray[np.int32]:
        file = folder / CHOSEN_FILE
        if not file.stat().st_size:  # nothing can be mapped of an empty file
            return np.empty((0, self.window.n), dtype=np.int32)
        return np.memmap(file, dtype=np.int32, mode="r").reshape(-1, self.window.n)

    @cached_property
    def _arithmetic(self) -> Arithmetic:
        chosen = self._settings
        return arithmetic(device=chosen.device, precision=chosen.precision, seed=chosen.seed)

    @property
    def _threads(self) -> int:
        assert self._arithmetic  # which sets how many threads this process may have
        return torch.get_num_threads()

    @cached_property
    def lower(self) -> LocalLower:
        """The layers that vectors are computed with; loaded when first asked for."""
        return LocalLower.load(self._inputs.lower, self._arithmetic.device)


def _gathered(batches: Iterator[list[Ids]]) -> Iterator[list[Ids]]:
    """Batches put together to about so many tokens."""
    held: list[Ids] = []
    tokens = 0
    for batch in batches:
        held.extend(batch)
        tokens += sum(map(len, batch))
        if tokens >= _NOTED_AT_ONCE:
            yield held
            held, tokens = [], 0
    if held:
        yield held
