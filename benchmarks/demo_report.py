"""The demo's report: every model of the demo tree beside the majority baseline, and a run of mixed traffic.

Measures over HTTP on the real product: starts it, builds the demo tree if absent, and stops it again.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import django
from rich.console import Console

from benchmarks import harness

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")
django.setup()

from hmi_site.demo.models import DemoModel, demo_models  # noqa: E402
from hmi_site.demo.traffic import TrafficResult, send_traffic  # noqa: E402
from hmi_site.demo.tree import demo_build  # noqa: E402
from hmi_site.demo.waiting import DemoError  # noqa: E402
from hmi_site.embedded.process import ChildError  # noqa: E402
from hmi_site.launcher.stack import Stack  # noqa: E402

REQUESTS = 600
QUICK_REQUESTS = 120


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and print its report; 0 when every model is there and every request was answered."""
    options = harness.arguments(__doc__ or "").parse_args(argv)
    console = Console()
    try:
        report = measure(console, requests=QUICK_REQUESTS if options.quick else REQUESTS)
    except (ChildError, DemoError) as error:
        console.print(f"[red]The demo failed.[/red] {error}", highlight=False)
        return 1
    _print(report, console)
    if options.json:
        harness.write_json(report, options.json)
    return 1 if report.failures else 0


def measure(console: Console, *, requests: int) -> harness.Report:
    """Start the product, build what the demo tree lacks, send the traffic, put the report together.

    Raises:
        ChildError, DemoError: a process or a job of the demo failed.
    """
    started = time.monotonic()
    with Stack(console) as stack:
        demo_build(console)
        models = demo_models()
        result = send_traffic(stack.url, [model.traffic for model in models], requests, console)
        return _report(models, result, requests, started)
    # The stack leaves its block quietly when asked to stop; a demo that was stopped has no report.
    raise DemoError("It was stopped before its end.")


def _report(
    models: Sequence[DemoModel], result: TrafficResult, requests: int, started: float
) -> harness.Report:
    rows = [model.row for model in models]
    figures = {
        "models": len(rows),
        "mean_metric": fmean(row["test"] for row in rows),
        "mean_majority": fmean(row["majority"] for row in rows),
        "requests": requests,
        "failed": len(result.failures),
        "seconds_total": time.monotonic() - started,
        **_serving_figures(result.answers),
    }
    settings = {"requests": requests, "device": os.environ.get("HMI_DEVICE", "auto")}
    return harness.Report("demo_report", settings, rows, figures, result.failures)


def _serving_figures(answers: Sequence[dict[str, Any]]) -> dict[str, float]:
    if not answers:
        return {}
    levels: Counter[str] = Counter()
    for answer in answers:
        levels.update(answer["plot"])
    fragments = max(1, levels.total())
    return {
        "tenants_per_batch": fmean(answer["batch"]["tenants"] for answer in answers),
        "rows_per_batch": fmean(answer["batch"]["rows"] for answer in answers),
        **{f"hit_{level}": count / fragments for level, count in levels.items()},
        **{
            f"ms_{stage}": fmean(answer["timings_ms"][stage] for answer in answers)
            for stage in answers[0]["timings_ms"]
        },
    }


def _print(report: harness.Report, console: Console) -> None:
    figures = dict(report.figures)
    console.print("\nThe models of the demo tenants, on their test sets\n", highlight=False)
    console.out(harness.markdown_table(report.rows), highlight=False)
    console.print("\nOne run of mixed traffic over HTTP\n", highlight=False)
    console.out(harness.markdown_table([_run_row(figures)]), highlight=False)
    console.print("\nWhere a request's time goes (mean ms), and the levels that its fragments found\n")
    console.out(harness.markdown_table([_split_row(figures)]), highlight=False)
    for failure in report.failures[:10]:
        console.print(f"[red]failed[/] {failure}", highlight=False)
    console.print(f"\nDone in {figures['seconds_total']:.0f} s.", highlight=False)


def _run_row(figures: dict[str, float]) -> harness.Row:
    return {
        "requests": int(figures["requests"]),
        "failed": int(figures["failed"]),
        "rows per batch": figures.get("rows_per_batch", 0.0),
        "tenants per batch": figures.get("tenants_per_batch", 0.0),
    }


def _split_row(figures: dict[str, float]) -> harness.Row:
    stages = {stage.replace("_", " "): figures.get(f"ms_{stage}", 0.0) for stage in _STAGES}
    levels = {f"{level} %": 100 * figures.get(f"hit_{level}", 0.0) for level in _LEVELS}
    return stages | levels


_STAGES = ("queue", "retrieval", "adapter_load", "compute", "total")
_LEVELS = ("trigram", "bigram", "unigram")


if __name__ == "__main__":
    sys.exit(main())
