"""How much memory the build of a PLOT takes: the fragments of a corpus far larger than memory are counted,
chosen and computed, and the process's peak is measured beside that of the model alone.

The corpus is generated, as token ids: words follow the Zipf-Mandelbrot law, and what follows a word is, more
often than not, one of its own successors, so that repeated pairs and triples are as common as in text.

    python -m benchmarks.serving.plot_memory --tokens 100000000
"""

import gc
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import numpy as np
from rich.console import Console

from benchmarks.accuracy.workbench import checkpoint_folder
from benchmarks.harness import Report, Row, arguments, markdown_table, write_json
from benchmarks.result_cache import bench_dir
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from workers.training.ngrams import Ids
from workers.training.plot_shards import Piece, PlotBuilder, PlotInputs, PlotSettings, ProgressCallback

TOKENS_OF_A_PIECE: Final = 7_000_000
LONGEST: Final = 128
TEXTS_AT_ONCE: Final = 2_000
SEED: Final = 0
# Mandelbrot's own figures for English, and how often a word is followed by one of its own successors.
EXPONENT, SHIFT = 1.05, 2.7
SUCCESSOR_SHARE: Final = 0.85
SUCCESSOR_EXPONENT: Final = 1.4
SUCCESSORS: Final = 4_000


class ZipfTexts:
    """Draws token ids 1..words with a Zipf distribution and repeated successors, as in natural text."""

    def __init__(self, words: int, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        ranks = np.arange(1, words + 1)
        share = 1.0 / (ranks + SHIFT) ** EXPONENT
        self._words = np.cumsum(share / share.sum())
        steps = 1.0 / np.arange(1, SUCCESSORS + 1) ** SUCCESSOR_EXPONENT
        self._steps = np.cumsum(steps / steps.sum())
        # Successors of a word are words by the same law: those at places of this list that its id gives.
        self._list = np.random.default_rng(SEED).choice(words, size=2**20, p=share / share.sum()) + 1

    def texts(self, count: int, length: int) -> Ids:
        """Token ids [count, length]."""
        drawn = np.searchsorted(self._words, self._draw.random((count, length))) + 1
        ranks = np.searchsorted(self._steps, self._draw.random((count, length)))
        follows = self._draw.random((count, length)) < SUCCESSOR_SHARE
        ids = np.empty((count, length), dtype=np.int64)
        ids[:, 0] = drawn[:, 0]
        for at in range(1, length):
            place = (ids[:, at - 1] * 1_000_003 + ranks[:, at] * 7_919) % len(self._list)
            ids[:, at] = np.where(follows[:, at], self._list[place], drawn[:, at])
        return ids


class GeneratedPlotBuilder(PlotBuilder):
    """A build from generated text instead of a corpus; a piece is a range of tokens."""

    def __init__(self, inputs: PlotInputs, tokens: int) -> None:
        super().__init__(inputs)
        self._tokens = tokens

    def count_pieces(self) -> list[Piece]:
        step = TOKENS_OF_A_PIECE
        return [(start, min(start + step, self._tokens)) for start in range(0, self._tokens, step)]

    def batches(self, piece: Piece, on_progress: ProgressCallback) -> Iterator[list[Ids]]:
        law = ZipfTexts(self.config.vocab - 1, seed=piece[0] + 1)
        left = piece[1] - piece[0]
        while left > 0:
            on_progress(piece[1] - piece[0] - left)
            drawn = law.texts(min(TEXTS_AT_ONCE, -(-left // LONGEST)), LONGEST)
            drawn[:, 0], drawn[:, -1] = self.config.cls_id, self.config.sep_id
            left -= drawn.size
            yield list(drawn)


class Stages:
    """Times the stages of the build and notes the peak of the process's memory after each."""

    def __init__(self, console: Console, base: float) -> None:
        self.rows: list[Row] = []
        self._console, self._base = console, base

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        done = work()
        row = {"stage": name, "seconds": round(time.perf_counter() - started, 1)}
        row["beyond the model, MiB"] = round(peak_mib() - self._base)
        self.rows.append(row)
        self._console.print(f"[dim]{row}[/]", highlight=False)
        return done


def reset_peak() -> None:
    """Reset the peak memory to the current memory (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> float:
    """The peak resident memory of this process since `reset_peak`, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kib = next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
    return int(kib) / 1024


def measure(tokens: int, alpha: float, vectors: str, memory_mb: int, console: Console) -> Report:
    """Build a table from this many generated tokens."""
    settings = PlotSettings(memory_mb=memory_mb, vectors=vectors)
    folder = Path(mkdtemp(prefix="plot-memory-", dir=bench_dir()))
    root, lower = folder / "root", folder / "lower"
    inputs = PlotInputs(root, lower, Path("generated"), alpha, all_unigrams=True, settings=settings)
    try:
        # In another process, so that opening the checkpoint does not count in this one's peak.
        maker = get_context("spawn").Process(target=_make_model, args=(root, lower))
        maker.start()
        maker.join()
        builder = GeneratedPlotBuilder(inputs, tokens)
        assert builder.lower  # the model, in memory from here on
        gc.collect()
        reset_peak()
        stages = Stages(console, base=peak_mib())
        found = _build(builder, folder, stages)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = {
        "peak_beyond_model_mib": float(max(row["beyond the model, MiB"] for row in stages.rows)),
        **found,
    }
    return Report(
        "plot_memory",
        {"tokens": tokens, "alpha": alpha, "vectors": vectors, "memory_mb": memory_mb},
        stages.rows,
        figures,
    )


def _make_model(root: Path, lower: Path) -> None:
    """The demo's checkpoint, split as it is: a conversion would change its numbers and not its size."""
    made = Root.from_checkpoint(open_checkpoint(checkpoint_folder()))
    made.save(root)
    LocalLower.from_full(made.checkpoint_lower(), made.config).save(lower)


def _build(builder: PlotBuilder, folder: Path, stages: Stages) -> dict[str, float]:
    pieces = builder.count_pieces()
    counted = [folder / f"count-{number}" for number in range(len(pieces))]

    def count() -> None:
        for piece, part in zip(pieces, counted, strict=True):
            builder.count(piece, part, _ignore)

    stages.run("count", count)
    chosen = stages.run("choose", lambda: builder.choose(counted, folder / "chosen", _ignore))
    ranges = builder.vector_pieces(chosen["rows"])
    computed = [folder / f"vectors-{number}" for number in range(len(ranges))]

    def compute() -> None:
        for piece, part in zip(ranges, computed, strict=True):
            builder.compute(piece, folder / "chosen", part, _ignore)

    stages.run("compute", compute)
    out = folder / "plot"
    stages.run("write", lambda: builder.write(folder / "chosen", ranges, computed, out, _ignore))
    return {
        "rows": float(chosen["rows"]),
        "bytes": float(sum(file.stat().st_size for file in out.iterdir())),
        "different_fragments": float(chosen["different"]["trigram"]),
        "coverage": chosen["coverage"]["trigram"],
    }


def _ignore(_: int) -> None:
    pass


def main() -> int:
    """Run from the command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tokens", type=int, help="how long the corpus is (100,000,000; 5,000,000 if quick)")
    parser.add_argument(
        "--alpha", type=float, default=10.0, help="coverage in %%: low, so that little is computed"
    )
    parser.add_argument("--vectors", choices=("float16", "int8"), default="float16")
    parser.add_argument(
        "--memory-mb", type=int, default=PlotSettings.memory_mb, help="what counting may hold"
    )
    options = parser.parse_args()
    tokens = options.tokens or (5_000_000 if options.quick else 100_000_000)
    console = Console(stderr=True)
    report = measure(tokens, options.alpha, options.vectors, options.memory_mb, console)
    print(markdown_table(report.rows))
    print(report.figures)
    if options.json:
        write_json(report, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
