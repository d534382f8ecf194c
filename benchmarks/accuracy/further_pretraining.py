"""The paper's figure 7, upper half: which layers should learn a domain's language before fine-tuning.

The original model learns the biomedical corpus with its lower layers, its upper ones, all or none; then the
usual PET is trained on each. Beside them stands what the product makes of it: models of the root, of a domain
that has the corpus's fragments but learnt nothing, and of a domain whose local lower half has learnt; each is
read through the tables of its own branch.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import BIOMEDICAL, DATASETS, GENERAL, Dataset, canonical, corpus
from benchmarks.accuracy.whole_lm import (
    VARIANTS,
    Domain,
    Learning,
    learnt,
    perplexities,
    save_as_root,
    with_head,
)
from benchmarks.accuracy.workbench import Converted, Workbench
from benchmarks.runs import Runs, bench_dir, fingerprint, made_folder
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from workers.training.fine_tune import fine_tune
from workers.training.further_pretrain import FurtherPretrainSettings, further_pretrain
from workers.training.precision import arithmetic
from workers.training.search import FineTuneSettings

ALPHA = 50.0
TASKS = tuple(name for name, dataset in DATASETS.items() if dataset.domain == BIOMEDICAL)
EPOCHS, QUICK_EPOCHS, QUICK_TOKENS = 5, 2, 40_000
FULL_CONTEXT_RATE = 1e-4
"""Of the original layers; they are not held to what they were, as the product's local ones are."""
ROOT_ROW = "Model of the root"
TABLE_ROW = "Model of a domain that only has a table"
DOMAIN_ROW = "Model of the domain"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--tokens", type=int, help="of the corpus that are learnt from")
    parser.add_argument("--epochs", type=int, help="of each fine-tuning")
    parser.add_argument("--seeds", type=int, default=1, help="of each fine-tuning")
    parser.add_argument("--alpha", type=float, default=ALPHA, help="coverage of all tables in %%")
    parser.add_argument("--hplms", action="store_true", help="only the models, not the original model")
    options = parser.parse_args(argv)
    quick, usual = options.quick, FurtherPretrainSettings()
    names = options.dataset or (("NCBI-disease",) if quick else TASKS)
    console = Console()
    benchmark = FurtherPretraining(
        datasets=[DATASETS[name] for name in names],
        learning=replace(usual, tokens=options.tokens or (QUICK_TOKENS if quick else usual.tokens)),
        epochs=options.epochs or (QUICK_EPOCHS if quick else EPOCHS),
        seeds=options.seeds,
        alpha=options.alpha,
        variants=() if options.hplms else VARIANTS,
        bench=Workbench(console),
        runs=Runs("further_pretraining", console),
    )
    report = benchmark.run()
    console.print(
        "\nPerplexity of held-out text; test metric in points (accuracy; NCBI-disease: entity F1)\n"
    )
    console.out(harness.markdown_table(report.rows), highlight=False)
    console.print({name: round(value, 3) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0


@dataclass(frozen=True, kw_only=True)
class FurtherPretraining:
    """The runs of the benchmark. `perplexity_ratio_domain` is the domain's perplexity on its own held-out
    text by that of the root (below 1: it gained); `gain_points` the mean gain of its models over the
    root's; `gain_points_learning` leaves out what the table alone gives."""

    datasets: list[Dataset]
    learning: FurtherPretrainSettings
    epochs: int
    seeds: int
    alpha: float
    variants: Sequence[Learning]
    bench: Workbench
    runs: Runs

    def run(self) -> harness.Report:
        converted = self.bench.convert()
        rows = [self._variant(converted, learning) for learning in self.variants]
        rows += self._products(converted)
        root, table, own = rows[-3:]
        figures = {
            "perplexity_ratio_domain": own["domain text"] / root["domain text"],
            "perplexity_ratio_general": own["general text"] / root["general text"],
            "gain_points": self._gain(own, root),
            "gain_points_learning": self._gain(own, table),
        }
        for row, learning in zip(rows[1:], self.variants[1:], strict=False):
            figures[f"gain_points_{learning}"] = self._gain(row, rows[0])
        settings = {
            "learning": asdict(self.learning),
            "epochs": self.epochs,
            "seeds": self.seeds,
            "alpha": self.alpha,
        }
        return harness.Report("further_pretraining", settings, rows, figures)

    def _gain(self, better: harness.Row, worse: harness.Row) -> float:
        return fmean(better[d.name] - worse[d.name] for d in self.datasets)

    def _variant(self, converted: Converted, learning: Learning) -> harness.Row:
        """The original model, some of its layers having learnt."""
        settings = replace(self.learning, learning_rate=FULL_CONTEXT_RATE)
        key = {"root": "as published", "learning": learning, "settings": asdict(settings)}
        folder = made_folder("further", key)

        def made() -> dict[str, Any]:
            return self._learn(converted, learning, settings, folder)

        found = self.runs.once(key, made)
        # Unread: with full context nothing is looked up.
        general = [self.bench.table(converted, GENERAL, self.alpha)]
        return _row(
            f"full context, {learning} learnt",
            found,
            {
                d.name: self._tuned(
                    {**key, "dataset": d.name}, d, folder, general, converted.lower, whole=True
                )
                for d in self.datasets
            },
        )

    def _learn(
        self, converted: Converted, learning: Learning, settings: FurtherPretrainSettings, folder: Path
    ) -> dict[str, Any]:
        computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
        root, reporter = Root.load(converted.root, computing.device), self.bench.reporter
        domain = Domain.read(converted.root, corpus(BIOMEDICAL), corpus(GENERAL), settings)
        local = LocalLower.load(converted.lower, computing.device)
        # Every variant learns with the same head.
        head = folder.parent / "heads" / f"{fingerprint(asdict(settings))}.safetensors"
        published = with_head(root, local, domain, settings, computing, reporter, head)
        model = learnt(published, learning, domain, settings, reporter)
        save_as_root(model, root, folder)
        return perplexities(model, domain, settings.seed, reporter)

    def _domain(self, converted: Converted) -> Converted:
        """The product's own: the root with the local lower half that has learnt, and the report."""
        key = {"root": converted.key, "domain": asdict(self.learning)}
        folder = made_folder("further", key)

        def made() -> dict[str, Any]:
            return further_pretrain(
                root=converted.root,
                lower=converted.lower,
                corpus=corpus(BIOMEDICAL),
                general=corpus(GENERAL),
                out=folder,
                settings=self.learning,
                reporter=self.bench.reporter,
            )

        return Converted(converted.root, folder, self.runs.once(key, made), fingerprint(key))

    def _products(self, converted: Converted) -> list[harness.Row]:
        """What a model of the root, of a domain that only has a table, and of the domain is like."""
        domain = self._domain(converted)
        before, after = (domain.report[when]["perplexity"] for when in ("before", "after"))
        general = self.bench.table(converted, GENERAL, self.alpha)

        def branch(lower: Path | None) -> list[Path]:
            own = self.bench.table(converted, BIOMEDICAL, self.alpha, lower=lower, all_unigrams=False)
            return [own, general]

        return [
            self._product(converted, converted.lower, [general], ROOT_ROW, before),
            self._product(converted, converted.lower, branch(None), TABLE_ROW, before),
            self._product(converted, domain.lower, branch(domain.lower), DOMAIN_ROW, after),
        ]

    def _product(
        self,
        converted: Converted,
        lower: Path,
        tables: list[Path],
        name: str,
        perplexity: dict[str, float],
    ) -> harness.Row:
        key = {
            "root": converted.key,
            "lower": str(lower),
            "tables": len(tables),
            "alpha": self.alpha,
        }
        return _row(
            name,
            perplexity,
            {
                d.name: self._tuned({**key, "dataset": d.name}, d, converted.root, tables, lower)
                for d in self.datasets
            },
        )

    def _tuned(
        self,
        key: dict[str, Any],
        dataset: Dataset,
        root: Path,
        tables: list[Path],
        lower: Path,
        *,
        whole: bool = False,
    ) -> float:
        """Mean test metric, in points, of models of the usual PET."""
        files = canonical(dataset, bench_dir() / "data" / dataset.name)
        values = []
        for seed in range(self.seeds):
            settings = FineTuneSettings(seed=seed, epochs=self.epochs)
            if whole:
                settings = replace(settings, lower_mode="whole", mix_ratio=0.0)
            whole_key = {**key, "fine_tune": asdict(settings)}

            def made(
                settings: FineTuneSettings = settings, whole_key: dict[str, Any] = whole_key
            ) -> dict[str, Any]:
                report = fine_tune(
                    root=root,
                    plots=tables,
                    dataset=files,
                    task=dataset.task,
                    out=made_folder("hplms", whole_key),
                    settings=settings,
                    reporter=self.bench.reporter,
                    lower=lower,
                )
                return {"dev": report["dev"]["value"], "test": report["test"]["value"]}

            values.append(100 * float(self.runs.once(whole_key, made)["test"]))
        return fmean(values)


def _row(name: str, perplexity: dict[str, float], metrics: dict[str, float]) -> harness.Row:
    return {
        "what learns": name,
        "domain text": perplexity["domain"],
        "general text": perplexity["general"],
        **metrics,
    }


if __name__ == "__main__":
    sys.exit(main())
