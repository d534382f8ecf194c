"""The paper's figure 7, upper half: which layers to train on a domain's text before fine-tuning.

The original model is trained on the biomedical corpus: its lower layers, its upper ones, all, or none. Then
the default PET is trained on each. They are compared with models of the product: of the root, of a domain
with a table of the corpus but no training, and of a further-pretrained domain. Each is read through the
tables of its own branch. With `--perplexities` only the lower layers of the root and of the domain are
compared, local and with full context, without any fine-tuning.
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
from benchmarks.accuracy.full_context_lm import (
    VARIANTS,
    Domain,
    TrainedLayers,
    open_published,
    perplexities,
    save_as_root,
    train_variant,
)
from benchmarks.accuracy.reporters import StageClock
from benchmarks.accuracy.workbench import ALPHA, Converted, Workbench
from benchmarks.result_cache import ResultCache, bench_dir, cache_folder, fingerprint
from inference.hplm.root import Root
from workers.training.fine_tune import fine_tune
from workers.training.further_pretrain import (
    FULL_STAGE_NAME,
    STAGE_NAME,
    FurtherPretrainSettings,
    further_pretrain,
)
from workers.training.precision import configure_torch
from workers.training.search import FineTuneSettings

TASKS = tuple(name for name, dataset in DATASETS.items() if dataset.domain == BIOMEDICAL)
EPOCHS, QUICK_EPOCHS, QUICK_TOKENS = 5, 2, 40_000
FULL_CONTEXT_RATE = 1e-4
"""The learning rate of the original layers, which no distillation loss holds in place."""
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
    parser.add_argument("--perplexities", action="store_true", help="only those of the lower layers")
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
        runs=ResultCache("further_pretraining", console),
    )
    report = benchmark.run_perplexities() if options.perplexities else benchmark.run()
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
    """The runs of the benchmark.

    Its figures: `perplexity_ratio_domain` is the domain's perplexity on its held-out text over that of the
    root (below 1: better). `gain_points` is the mean gain of its models over the root's;
    `gain_points_learning` that over models which only have the table. `perplexity_ratio_full_context` is that
    of the domain's lower layers with full context over the root's; `seconds_ratio_full_context` is the
    processor time of their training over that of the local ones.
    """

    datasets: list[Dataset]
    learning: FurtherPretrainSettings
    epochs: int
    seeds: int
    alpha: float
    variants: Sequence[TrainedLayers]
    bench: Workbench
    runs: ResultCache

    def run(self) -> harness.Report:
        converted = self.bench.convert()
        rows = [self._variant(converted, layers) for layers in self.variants]
        rows += self._products(converted)
        root, table, own = rows[-3:]
        figures = {
            "perplexity_ratio_domain": own["domain text"] / root["domain text"],
            "perplexity_ratio_general": own["general text"] / root["general text"],
            "gain_points": self._gain(own, root),
            "gain_points_learning": self._gain(own, table),
        }
        for row, layers in zip(rows[1:], self.variants[1:], strict=False):
            figures[f"gain_points_{layers}"] = self._gain(row, rows[0])
        settings = {
            "learning": asdict(self.learning),
            "epochs": self.epochs,
            "seeds": self.seeds,
            "alpha": self.alpha,
        }
        return harness.Report("further_pretraining", settings, rows, figures)

    def run_perplexities(self) -> harness.Report:
        """The perplexities of the lower layers of the root and of the domain, and what training took."""
        report = self._domain(self.bench.convert()).report
        local, full = (report["stage_seconds"][stage] for stage in (STAGE_NAME, FULL_STAGE_NAME))
        rows: list[harness.Row] = [
            _row(name, report[key]["perplexity"], {"training, processor s": seconds})
            for name, key, seconds in (
                ("root, local", "before", 0.0),
                ("root, full context", "root", 0.0),
                ("domain, local", "after", local),
                ("domain, full context", "full_context", full),
            )
        ]
        figures = {
            f"perplexity_ratio_full_context{suffix}": (
                report["full_context"]["perplexity"][text] / report["root"]["perplexity"][text]
            )
            for text, suffix in (("domain", ""), ("general", "_general"))
        }
        figures["seconds_ratio_full_context"] = full / local
        return harness.Report("further_pretraining", {"learning": asdict(self.learning)}, rows, figures)

    def _gain(self, better: harness.Row, worse: harness.Row) -> float:
        return fmean(better[d.name] - worse[d.name] for d in self.datasets)

    def _variant(self, converted: Converted, layers: TrainedLayers) -> harness.Row:
        """The original model with these layers trained."""
        settings = replace(self.learning, learning_rate=FULL_CONTEXT_RATE)
        key = {"root": "as published", "layers": layers, "settings": asdict(settings)}
        folder = cache_folder("further", key)

        def made() -> dict[str, Any]:
            return self._train(converted, layers, settings, folder)

        found = self.runs.get_or_compute(key, made)
        # Not used: with full context nothing is looked up.
        general = [self.bench.table(converted, GENERAL, self.alpha)]
        return _row(
            f"full context, {layers} trained",
            found,
            {
                d.name: self._mean_metric(
                    {**key, "dataset": d.name}, d, folder, general, converted.lower, full_context=True
                )
                for d in self.datasets
            },
        )

    def _train(
        self, converted: Converted, layers: TrainedLayers, settings: FurtherPretrainSettings, folder: Path
    ) -> dict[str, Any]:
        precision = configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)
        root, reporter = Root.load(converted.root, precision.device), self.bench.reporter
        domain = Domain.read(converted.root, corpus(BIOMEDICAL), corpus(GENERAL), settings)
        # All variants use the same head.
        head = folder.parent / "heads" / f"{fingerprint(asdict(settings))}.safetensors"
        published = open_published(root, domain, settings, precision, reporter, head)
        model = train_variant(published, layers, domain, settings, reporter)
        save_as_root(model, root, folder)
        return perplexities(model, domain, settings.seed, reporter)

    def _domain(self, converted: Converted) -> Converted:
        """The further-pretrained domain: the root with its local lower half, and the report."""
        key = {"root": converted.key, "domain": asdict(self.learning)}
        folder = cache_folder("further", key)

        def made() -> dict[str, Any]:
            clock = StageClock(self.bench.reporter)
            report = further_pretrain(
                root=converted.root,
                lower=converted.lower,
                corpus=corpus(BIOMEDICAL),
                general=corpus(GENERAL),
                out=folder,
                settings=self.learning,
                reporter=clock,
            )
            return report | {"stage_seconds": clock.seconds()}

        return Converted(converted.root, folder, self.runs.get_or_compute(key, made), fingerprint(key))

    def _products(self, converted: Converted) -> list[harness.Row]:
        """The rows of models of the root, of a domain with only a table, and of the domain."""
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
                d.name: self._mean_metric({**key, "dataset": d.name}, d, converted.root, tables, lower)
                for d in self.datasets
            },
        )

    def _mean_metric(
        self,
        key: dict[str, Any],
        dataset: Dataset,
        root: Path,
        tables: list[Path],
        lower: Path,
        *,
        full_context: bool = False,
    ) -> float:
        """Mean test metric, in points, of models with the default PET."""
        files = canonical(dataset, bench_dir() / "data" / dataset.name)
        values = []
        for seed in range(self.seeds):
            settings = FineTuneSettings(seed=seed, epochs=self.epochs)
            if full_context:
                settings = replace(settings, lower_mode="full", full_context_share=0.0)
            full_key = {**key, "fine_tune": asdict(settings)}

            def made(
                settings: FineTuneSettings = settings, full_key: dict[str, Any] = full_key
            ) -> dict[str, Any]:
                report = fine_tune(
                    root=root,
                    plots=tables,
                    dataset=files,
                    task=dataset.task,
                    out=cache_folder("hplms", full_key),
                    settings=settings,
                    reporter=self.bench.reporter,
                    lower=lower,
                )
                return {"dev": report["dev"]["value"], "test": report["test"]["value"]}

            values.append(100 * float(self.runs.get_or_compute(full_key, made)["test"]))
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
