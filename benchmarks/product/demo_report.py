"""The demo's report: every model of the demo tree beside the majority baseline, and a run of mixed traffic;
of each generative model its losses, its metrics, and a text that it writes.

Measures over HTTP on the real product: starts it, builds the demo tree if absent, and stops it again.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any

import django
import redis
from django.apps import apps
from django.conf import settings
from rich.console import Console

from benchmarks import harness
from benchmarks.answer_levels import AnsweredAt, level_shares, levels_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")
if not apps.ready:  # a second setup closes what absl logs to
    django.setup()

from demo.generative_models import GenerativeModel, generative_models
from demo.generative_traffic import WritingResult, send_prompts
from demo.job_progress import DemoError
from demo.models import demo_models
from demo.options import DemoOptions, add_demo_arguments
from demo.traffic import ModelTraffic, TrafficResult, send_traffic
from demo.tree import demo_build, demo_is_built
from hmi_site.embedded.process import ChildError
from hmi_site.launcher.stack import Stack
from inference.queueing.status import workers_alive
from tenants.base.scope import use_platform_scope

STAGES = ("queue", "retrieval", "adapter_load", "compute", "total")
FRAGMENTS = ("trigram", "bigram", "unigram")
REQUESTS = 400
QUICK_REQUESTS = 120
QUALITIES = {"table": "fast", "cascade": "balanced", "full": "exact"}
"""The quality that asks for each way to answer."""
SHARE_OF_REQUESTS = 10
"""One in this many requests is the number sent to each model in each way."""
SHARE_OF_PROMPTS = 20
"""One in this many requests is the number of prompts sent to each generative model alone, and to all."""


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
        result = send_traffic(stack.url, [model.traffic for model in models], requests, console)
        rates = [_rates(stack.url, model.traffic, requests // SHARE_OF_REQUESTS, console) for model in models]
        result.failures += [failure for _, failures in rates for failure in failures]
        report = report_of(
            [model.row | rate for model, (rate, _) in zip(models, rates, strict=True)],
            result,
            settings={**_worker_settings(), "built_before": was_built},
            seconds=time.monotonic() - started,
        )
        if demo.generative:
            writing = _writing(stack.url, generative_models(), requests // SHARE_OF_PROMPTS, console)
            report = with_writing(report, *writing, seconds=time.monotonic() - started)
        return report
    # The stack leaves its block quietly when asked to stop; a demo that was stopped has no report.
    raise DemoError("It was stopped before its end.")


def _rates(url: str, model: ModelTraffic, requests: int, console: Console) -> tuple[harness.Row, list[str]]:
    """The texts per second that the product answers for one model in each way, and what failed."""
    results = {
        way: send_traffic(url, [model], requests, console, quality=quality)
        for way, quality in QUALITIES.items()
    }
    row = {f"texts/s {way}": result.texts_per_s for way, result in results.items()}
    return row, [failure for result in results.values() for failure in result.failures]


def _writing(
    url: str, models: Sequence[GenerativeModel], prompts: int, console: Console
) -> tuple[list[harness.Row], WritingResult]:
    """The rows of the generative models, each with its rate alone and a text, and the run of all together."""
    rows, failures = [], []
    for model in models:
        alone = send_prompts(url, [model.traffic], prompts, console)
        failures += alone.failures
        samples = [{"prompt": text.prompt, "text": text.text} for text in alone.texts[:1]]
        rows.append(model.row | {"tokens/s": alone.tokens_per_s, "samples": samples})
    result = send_prompts(url, [model.traffic for model in models], prompts, console)
    result.failures += failures
    return rows, result


def with_writing(
    report: harness.Report, rows: list[harness.Row], result: WritingResult, *, seconds: float
) -> harness.Report:
    """The report with the rows of the generative models, and the figures of the run of all of them."""
    figures = {
        "generative_models": len(rows),
        "mean_rouge_l": fmean(row["ROUGE-L"] for row in rows),
        "prompts": len(result.texts) + len(result.failures),
        "prompts_failed": len(result.failures),
        "tokens_per_s": result.tokens_per_s,
        "seconds_total": seconds,
    }
    failures = report.failures + result.failures
    if not result.texts:
        failures.append("No prompt was answered.")
    return replace(
        report, rows=[*report.rows, *rows], figures={**report.figures, **figures}, failures=failures
    )


def report_of(
    rows: list[harness.Row], result: TrafficResult, *, settings: dict[str, Any], seconds: float
) -> harness.Report:
    """The report of a run: its figures, from the models' rows and the answers of the traffic."""
    figures = {
        "models": len(rows),
        "mean_metric": fmean(row["test"] for row in rows),
        "mean_majority": fmean(row["majority"] for row in rows),
        "requests": len(result.answers) + len(result.failures),
        "failed": len(result.failures),
        **_serving_figures(result.answers),
        "seconds_total": seconds,
    }
    failures = list(result.failures)
    if not result.answers:
        failures.append("No request was answered.")
    told = [row | _levels_of_model(str(row["Model"]), result.answers) for row in rows]
    return harness.Report("demo_report", settings, told, figures, failures)


def _levels_of_model(name: str, answers: Sequence[dict[str, Any]]) -> harness.Row:
    """The shares of a model's texts by level, in percent."""
    results = chain.from_iterable(each["results"] for each in answers if each["model"]["name"] == name)
    return _percents(level_shares(levels_of(results)))


def _percents(shares: Mapping[str, float]) -> harness.Row:
    return {name.replace("_share", " %"): 100 * share for name, share in shares.items()}


def _serving_figures(answers: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Means over requests: of the batch each travelled in (its rows, and the tenants mixed in it), and of
    where its milliseconds went; the shares of the fragments that were looked up which the tables had whole,
    in part, or by their uni-gram; and the shares of the texts by level."""
    found, levels = Counter[str](), Counter[AnsweredAt]()
    for answer in answers:
        found.update({name: answer["plot"][name] for name in FRAGMENTS})
        levels.update(levels_of(answer["results"]))
    fragments = max(1, found.total())
    return {
        "tenants_per_batch": _mean(answer["batch"]["tenants"] for answer in answers),
        "rows_per_batch": _mean(answer["batch"]["rows"] for answer in answers),
        **{f"hit_{name}": found[name] / fragments for name in FRAGMENTS},
        **level_shares(levels),
        **{f"ms_{stage}": _mean(answer["timings_ms"][stage] for answer in answers) for stage in STAGES},
    }


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return fmean(listed) if listed else 0.0


def _worker_settings() -> dict[str, str]:
    """The device and dtype that the inference worker really uses."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        worker = workers_alive(client)[0]
    return {"device": worker.device, "dtype": worker.dtype}


def _print(report: harness.Report, console: Console) -> None:
    figures = dict(report.figures)
    console.print("\nThe models of the demo tenants, on their test sets\n", highlight=False)
    encoders = [row for row in report.rows if "ROUGE-L" not in row]
    console.out(harness.markdown_table(encoders), highlight=False)
    console.print("\nOne run of mixed traffic over HTTP\n", highlight=False)
    console.out(harness.markdown_table([_run_row(figures)]), highlight=False)
    console.print("\nWhere a request's time goes (mean ms), what the tables had, and texts by level\n")
    console.out(harness.markdown_table([_split_row(figures)]), highlight=False)
    _print_writing([row for row in report.rows if "ROUGE-L" in row], figures, console)
    for failure in report.failures[:10]:
        console.print(f"[red]failed[/] {failure}", highlight=False)
    console.print(f"\nDone in {figures['seconds_total']:.0f} s.", highlight=False)


def _print_writing(rows: list[harness.Row], figures: dict[str, float], console: Console) -> None:
    """What there is to say of the generative models; nothing where there are none."""
    if not rows:
        return
    console.print("\nThe generative models of the demo tenants, on their test sets\n", highlight=False)
    told = [{title: value for title, value in row.items() if title != "samples"} for row in rows]
    console.out(harness.markdown_table(told), highlight=False)
    for row in rows:
        for sample in row["samples"]:
            console.out(f"\n{row['Model']}: {sample['prompt'].strip()}\n  {sample['text']}", highlight=False)
    console.print(
        f"\n{figures['prompts']:.0f} prompts of all, streamed: {figures['prompts_failed']:.0f} failed,"
        f" {figures['tokens_per_s']:.1f} tokens/s",
        highlight=False,
    )


def _run_row(figures: dict[str, float]) -> harness.Row:
    return {
        "requests": int(figures["requests"]),
        "failed": int(figures["failed"]),
        "rows per batch": figures["rows_per_batch"],
        "tenants per batch": figures["tenants_per_batch"],
    }


def _split_row(figures: dict[str, float]) -> harness.Row:
    stages = {stage.replace("_", " "): figures[f"ms_{stage}"] for stage in STAGES}
    hits = {f"{name} %": 100 * figures[f"hit_{name}"] for name in FRAGMENTS}
    return stages | hits | _percents({name: figures[name] for name in level_shares(Counter())})


if __name__ == "__main__":
    sys.exit(main())
