"""Which PET a fine-tuning makes by default: its metric on the dev split beside what serving it costs.

The test split is not read. Serving cost is processor time of the upper layers with the PETs of a batch of 32
texts, on one core in the product's number format: all texts of one model, and each of a model of its own.
Runs are cached: stop it and start it again.

    python -m benchmarks.accuracy.pet_choice
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean, median, stdev
from typing import Final

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import DATASETS, QUICK, Dataset, canonical, draw_rows
from benchmarks.accuracy.workbench import ALPHA, Converted, Workbench
from benchmarks.result_cache import ResultCache, bench_dir, cache_folder
from inference.cascade.dispatcher import AnswerPolicy
from inference.hplm.devices import pick_device, pick_dtype
from inference.hplm.pet_batch import SegmentPets
from inference.hplm.pets import PLACES, PackedPet, PetSpec, PetWeights, UpperShape
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from workers.training.datasets import DatasetFiles, read_examples
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.fine_tune import fine_tune
from workers.training.search import FineTuneSettings
from workers.training.tasks import task_kind

QUICK_TOKENS, EPOCHS, QUICK_EPOCHS = 100_000, 5, 3
BATCH, BATCHES, REPEATS = 32, 4, 7
BARE: Final = "no PET"
INT8: Final = ", int8"


@dataclass(frozen=True, kw_only=True)
class Settings(FineTuneSettings):
    """With a choice of the linear layers that have LoRA."""

    lora_places: tuple[str, ...] = PLACES

    @property
    def spec(self) -> PetSpec:
        return PetSpec(**{**asdict(super().spec), "lora_places": self.lora_places})


FEED_FORWARD: Final = ("expand", "contract")
ADAPTER_RATE: Final = 3e-3
CANDIDATES: Final[dict[str, Settings]] = {
    "lora-48": Settings(lora=48, learning_rate=1e-3),
    "lora-32": Settings(lora=32, learning_rate=1e-3),
    "lora-16": Settings(lora=16, learning_rate=2e-3),
    "lora-8": Settings(lora=8, learning_rate=2e-3),
    "lora-32-ff": Settings(lora=32, lora_places=FEED_FORWARD, learning_rate=2e-3),
    "lora-48-attention": Settings(lora=48, lora_places=PLACES[:4], learning_rate=1e-3),
    "output-adapter-64": Settings(lora=0, output_adapter=64, learning_rate=ADAPTER_RATE),
    "output-adapter-128": Settings(lora=0, output_adapter=128, learning_rate=ADAPTER_RATE),
    "adapters-64": Settings(lora=0, adapter=64, output_adapter=64, learning_rate=ADAPTER_RATE),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table."""
    options = _options(argv)
    console = Console()
    report = PetChoice(options, console).report()
    console.out(harness.markdown_table(report.rows), highlight=False)
    if options.json:
        harness.write_json(report, options.json)
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--pet", action="append", choices=CANDIDATES, help="only this one")
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--seeds", type=int, default=1, help="of each dataset")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rows", type=int, help="of each split that are used, at most, drawn by chance")
    parser.add_argument("--int8", action="store_true", help="also evaluate with int8 weights")
    parser.add_argument(
        "--full-context",
        action="store_true",
        help="train and read by computed lower layers, whatever the conversion",
    )
    options = parser.parse_args(argv)
    options.epochs = options.epochs or (QUICK_EPOCHS if options.quick else EPOCHS)
    options.datasets = [DATASETS[name] for name in options.dataset or QUICK]
    options.candidates = {name: CANDIDATES[name] for name in options.pet or CANDIDATES}
    return options


class PetChoice:
    """The trainings of the candidates, and their cost."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._options = options
        self._bench, self._runs = Workbench(console), ResultCache("pet_choice", console)

    def report(self) -> harness.Report:
        """Train what is missing, then measure the cost."""
        budget = {"distil_tokens": QUICK_TOKENS} if self._options.quick or self._options.full_context else {}
        converted = self._bench.convert(**budget)
        metrics = {
            (name, dataset.name + ending): [
                self._dev(converted, name, dataset, seed, int8=bool(ending))
                for seed in range(self._options.seeds)
            ]
            for dataset in self._options.datasets
            for name in self._options.candidates
            for ending in self._endings
        }
        cost = ServingCost(Root.load(converted.root, "cpu", _dtype()), self._lengths(converted))
        milliseconds = cost.measure({name: one.spec for name, one in self._options.candidates.items()})
        rows = [self._row(name, metrics, milliseconds) for name in [BARE, *self._options.candidates]]
        figures = {
            f"{figure}_{row['PET']}": float(row[figure])
            for row in rows
            for figure in ("one model", "32 models")
        }
        settings = {
            "seeds": self._options.seeds,
            "epochs": self._options.epochs,
            "rows": self._options.rows,
            "full_context": self._options.full_context,
            "dtype": str(_dtype()),
        }
        return harness.Report("pet_choice", settings, rows, figures)

    @property
    def _endings(self) -> list[str]:
        """Of the columns of a dataset."""
        return ["", INT8] if self._options.int8 else [""]

    def _dev(
        self, converted: Converted, name: str, dataset: Dataset, seed: int, *, int8: bool = False
    ) -> float:
        """The dev metric in points, by float or by int8 weights."""
        full = self._options.full_context
        chosen = {
            **asdict(CANDIDATES[name]),
            "seed": seed,
            "epochs": self._options.epochs,
            **({"lower_mode": "full", "full_context_share": 0.0} if full else {}),
        }
        key = {
            "dataset": dataset.name,
            **({"rows": self._options.rows} if self._options.rows else {}),
            "settings": chosen,
            "root": "as published" if full else converted.key,
        }

        folder = cache_folder("hplms", {"pet_choice": key})
        plots = [self._bench.table(converted, "general", ALPHA)]

        def evaluate_int8() -> dict[str, float]:
            report = evaluate(
                root=converted.root,
                plots=plots,
                hplm=folder,
                dataset_file=self._files(dataset).dev,
                task=dataset.task,
                reporter=self._bench.reporter,
                lower=converted.lower,
                settings=EvaluateSettings(policy=AnswerPolicy(Settings(**chosen).lower_mode), int8=True),
            )
            return {"dev": report["value"]}

        def tune() -> dict[str, float]:
            report = fine_tune(
                root=converted.root,
                plots=plots,
                dataset=self._files(dataset),
                task=dataset.task,
                out=folder,
                settings=Settings(**chosen),
                reporter=self._bench.reporter,
                lower=converted.lower,
            )
            return {"dev": report["dev"]["value"]}

        result = self._runs.get_or_compute(key, tune)
        if int8:
            result = self._runs.get_or_compute({**key, "weights": "int8"}, evaluate_int8)
        return 100 * float(result["dev"])

    def _files(self, dataset: Dataset) -> DatasetFiles:
        """Rows of the training and the dev split; the latter stands for the test split, too, which must not
        be read."""
        files = canonical(dataset, bench_dir() / "data" / dataset.name)
        rows: int | None = self._options.rows
        if rows is not None:
            drawn = bench_dir() / "data" / f"{dataset.name}-{rows}"
            drawn.mkdir(exist_ok=True)
            files = DatasetFiles(
                *(draw_rows(path, rows, drawn) for path in (files.train, files.dev, files.dev))
            )
        return replace(files, test=files.dev)

    def _lengths(self, converted: Converted) -> list[int]:
        """Tokens of the texts of the dev splits, mixed."""
        root = Root.load(converted.root, "cpu")
        lengths = []
        for dataset in self._options.datasets:
            file = canonical(dataset, bench_dir() / "data" / dataset.name).dev
            kind = task_kind(dataset.task)
            for example in read_examples(file, dataset.task):
                lengths += [len(sequence.ids) for sequence in kind.encode(example, root.tokenizer)]
        shuffled = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(0))
        return [lengths[at] for at in shuffled.tolist()]

    def _row(
        self, name: str, metrics: dict[tuple[str, str], list[float]], cost: dict[str, tuple[float, float]]
    ) -> harness.Row:
        names = [dataset.name + ending for dataset in self._options.datasets for ending in self._endings]
        by_dataset = {column: metrics.get((name, column), []) for column in names}
        return {
            "PET": name,
            **{dataset: _mean_and_deviation(values) for dataset, values in by_dataset.items()},
            "one model": cost[name][0],
            "32 models": cost[name][1],
        }


class ServingCost:
    """Processor milliseconds of a text in the upper layers."""

    def __init__(self, root: Root, lengths: Sequence[int]) -> None:
        self._root = root
        self._batches = [lengths[at * BATCH : (at + 1) * BATCH] for at in range(BATCHES)]

    def measure(self, specs: dict[str, PetSpec]) -> dict[str, tuple[float, float]]:
        """By candidate, with one model in a batch and with one for each text; medians of passes in turn."""
        ways = {
            (name, models): partial(self._pass, list(self._pets(spec, models)))
            for name, spec in {BARE: PetSpec(), **specs}.items()
            for models in (1, BATCH)
        }
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        found: dict[tuple[str, int], list[float]] = {way: [] for way in ways}
        for repeat in range(REPEATS + 1):
            for way, run in ways.items():
                milliseconds = _timed(run)
                if repeat:
                    found[way].append(milliseconds / (BATCH * BATCHES))
        torch.set_num_threads(threads)
        return {name: (median(found[name, 1]), median(found[name, BATCH])) for name in (BARE, *specs)}

    def _pets(self, spec: PetSpec, models: int) -> Iterator[PackedPet]:
        upper = self._root.config
        shape = UpperShape(upper.upper, upper.hidden, upper.architecture.inner)
        made = [PackedPet.of(PetWeights.initial(spec, shape), _dtype()) for _ in range(models)]
        return (made[at % models] for at in range(BATCH))

    @torch.inference_mode()
    def _pass(self, pets: Sequence[PackedPet]) -> None:
        for lengths in self._batches:
            sequences = PackedSequences(tuple(lengths))
            states = torch.zeros(sum(lengths), self._root.config.hidden, dtype=_dtype())
            self._root.upper(states, sequences, SegmentPets.of(pets, lengths))


def _timed(run: Callable[[], None]) -> float:
    before = time.process_time()
    run()
    return 1000 * (time.process_time() - before)


def _dtype() -> torch.dtype:
    return pick_dtype("auto", pick_device("cpu"))


def _mean_and_deviation(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    sys.exit(main())
