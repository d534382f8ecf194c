"""The demo's report: each model beside the majority and its quick version, and what each way to answer costs;
of each generative model its metrics and a text that it writes.

Measures over HTTP on the real product: starts it, builds the demo tree if absent, and stops it again.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any, Final

import django
import redis
from django.apps import apps
from django.conf import settings
from rich.console import Console

from benchmarks import harness
from benchmarks.answer_levels import level_shares, levels_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")
if not apps.ready:  # a second setup closes what absl logs to
    django.setup()

from demo.generative_models import generative_models
from demo.generative_traffic import WritingResult, send_prompts
from demo.job_progress import DemoError
from demo.models import demo_models
from demo.options import DemoOptions, add_demo_arguments
from demo.traffic import TrafficResult, send_traffic
from demo.tree import demo_build, demo_is_built
from hmi_site.embedded.process import ChildError
from hmi_site.launcher.stack import Stack
from inference.queueing.status import workers_alive
from tenants.base.scope import use_platform_scope

REQUESTS: Final = 400
QUICK_REQUESTS: Final = 120
QUALITIES: Final = {"table": "fast", "cascade": "balanced", "full": "exact"}
"""The quality that asks for each way to answer."""
SHARE_OF_PROMPTS: Final = 20
"""One in this many requests is the number of prompts sent to the generative models."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and print its report; 0 when every model is there and every request was answered."""
    parser = harness.arguments(__doc__ or "")
    add_demo_arguments(parser)
    options = parser.parse_args(argv)
    use_platform_scope()
    console = Console()
    try:
        demo, requests = DemoOptions.of(vars(options)), QUICK_REQUESTS if options.quick else REQUESTS
        report = measure(console, demo, requests=requests)
    except (ChildError, DemoError) as error:
        console.print(f"[red]The demo failed.[/red] {error}", highlight=False)
        return 1
    _print(report, console)
    if options.json:
        harness.write_json(report, options.json)
    return 1 if report.failures else 0


def measure(console: Console, demo: DemoOptions, *, requests: int) -> harness.Report:
    """Start the product, build what the demo tree lacks, send the traffic, put the report together.

    Raises:
        ChildError, DemoError: a process or a job of the demo failed.
    """
    started = time.monotonic()
    with Stack(console) as stack:
        was_built = demo_is_built(demo)
        demo_build(console, demo)
        models = demo_models()
        runs = {
            way: send_traffic(
                stack.url, [model.traffic for model in models], requests, console, quality=quality
            )
            for way, quality in QUALITIES.items()
        }
        report = report_of([model.row for model in models], runs, {**_worker(), "built_before": was_built})
        if demo.generative:
            prompts = requests // SHARE_OF_PROMPTS
            written = [
                (model.row, send_prompts(stack.url, model.traffic, prompts, console))
                for model in generative_models()
            ]
            report = with_writing(report, written)
        return replace(report, figures={**report.figures, "seconds_total": time.monotonic() - started})
    # The stack leaves its block quietly when asked to stop; a demo that was stopped has no report.
    raise DemoError("It was stopped before its end.")


def report_of(
    rows: list[harness.Row], runs: Mapping[str, TrafficResult], settings: dict[str, Any]
) -> harness.Report:
    """The report of the encoder models: their rows, and the figures of a run of traffic in each way."""
    answers = runs["cascade"].answers
    levels = levels_of(chain.from_iterable(answer["results"] for answer in answers))
    tenants = [answer["batch"]["tenants"] for answer in answers]
    quick = [(row["quick"], row["trained"]) for row in rows if row["quick"] != ""]
    figures = {
        "models": len(rows),
        "mean_metric": fmean(row["trained"] for row in rows),
        "mean_majority": fmean(row["majority"] for row in rows),
        **({"quick_gap_points": fmean(after - before for before, after in quick)} if quick else {}),
        "requests": sum(len(run.answers) + len(run.failures) for run in runs.values()),
        "failed": sum(len(run.failures) for run in runs.values()),
        "tenants_per_batch": fmean(tenants) if tenants else 0.0,
        **level_shares(levels),
        **{f"texts_per_s_{way}": run.texts_per_s for way, run in runs.items()},
    }
    failures = [failure for run in runs.values() for failure in run.failures]
    failures += [f"No request was answered: {way}." for way, run in runs.items() if not run.answers]
    return harness.Report("demo_report", settings, rows, figures, failures)


def with_writing(
    report: harness.Report, written: Sequence[tuple[harness.Row, WritingResult]]
) -> harness.Report:
    """The report with the row of each generative model, a text that it wrote, and the figures of all."""
    failures = [failure for _, result in written for failure in result.failures]
    figures = {
        "generative_models": len(written),
        "prompts": sum(len(result.texts) for _, result in written) + len(failures),
        "prompts_failed": len(failures),
    }
    failures += [f"{row['Model']}: no prompt was answered." for row, result in written if not result.texts]
    rows = [
        row
        | {"tokens/s": result.tokens_per_s}
        | {"samples": [{"prompt": text.prompt, "text": text.text} for text in result.texts[:1]]}
        for row, result in written
    ]
    return replace(
        report,
        rows=[*report.rows, *rows],
        figures={**report.figures, **figures},
        failures=report.failures + failures,
    )


def _worker() -> dict[str, str]:
    """The device and dtype that the inference worker really uses."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        worker = workers_alive(client)[0]
    return {"device": worker.device, "dtype": worker.dtype}


def _print(report: harness.Report, console: Console) -> None:
    figures = report.figures
    encoders = [row for row in report.rows if "samples" not in row]
    console.print("\nThe models of the demo tenants, on their test sets\n", highlight=False)
    console.out(harness.markdown_table([_without(row, "levels") for row in encoders]), highlight=False)
    console.print("\nThe three ways to answer, over HTTP\n", highlight=False)
    console.out(
        harness.markdown_table([_way_row(way, encoders, figures) for way in QUALITIES]), highlight=False
    )
    console.print(
        f"\nIn the cascade, {100 * figures['table_share']:.0f} % of the texts were answered by the lookup"
        f" tables. {figures['requests']:.0f} requests, {figures['failed']:.0f} failed.",
        highlight=False,
    )
    for row in (row for row in report.rows if "samples" in row):
        console.out("\n" + harness.markdown_table([_without(row, "samples")]), highlight=False)
        for sample in row["samples"]:
            console.out(f"\n{sample['prompt'].strip()}\n  {sample['text']}", highlight=False)
    for failure in report.failures[:10]:
        console.print(f"[red]failed[/] {failure}", highlight=False)
    console.print(f"\nDone in {figures['seconds_total']:.0f} s.", highlight=False)


def _way_row(way: str, rows: Sequence[harness.Row], figures: Mapping[str, float]) -> harness.Row:
    return {
        "answered": way,
        '"quality"': QUALITIES[way],
        "mean metric": fmean(row["levels"][way] for row in rows),
        "texts/s": figures[f"texts_per_s_{way}"],
    }


def _without(row: harness.Row, name: str) -> harness.Row:
    return {title: value for title, value in row.items() if title != name}


if __name__ == "__main__":
    sys.exit(main())
