"""The check of a checkpoint as lines of the page that registers it."""

from collections.abc import Iterator

from tenants.base.file_sizes import file_size
from tenants.base.plurals import counted
from versiontree.tree.checkpoint_report import CheckpointReport
from versiontree.tree.selectors.conversion_estimates import ConversionEstimate
from versiontree.tree.selectors.past_jobs import EstimateRange
from versiontree.tree.services.root_check import RootCheck


def check_facts(check: RootCheck) -> list[tuple[str, str]]:
    """Labels and values of what is known."""
    facts = list(_checkpoint(check.report))
    if check.estimate is not None:
        facts += _estimate(check.estimate)
    return facts


def _checkpoint(report: CheckpointReport) -> Iterator[tuple[str, str]]:
    numbers = {
        "Layers": report.layers,
        "Hidden size": report.hidden,
        "Parameters": report.parameters,
        "Word embeddings": report.vocabulary,
        "Tokens": report.token_ids,
        "Longest text": report.max_tokens,
    }
    if report.family:
        yield "Family", report.family
    yield from ((label, f"{number:,}") for label, number in numbers.items() if number is not None)
    if report.dtypes:
        yield "Number formats", ", ".join(f"{dtype} ({count:,})" for dtype, count in report.dtypes.items())
    if report.head:
        yield "Task head", report.head
    if report.modules:
        yield "Embedding modules", ", ".join(report.modules)
    if report.files:
        named = ", ".join(f"{file.name} ({file_size(file.size)})" for file in report.files)
        yield "Files", named


def _estimate(estimate: ConversionEstimate) -> Iterator[tuple[str, str]]:
    yield "Layers below the cut", f"{estimate.lower_layers:,}"
    yield "Memory, upper layers", f"{file_size(estimate.upper_bytes)} in bfloat16"
    if estimate.lower_bytes:
        yield "Memory, lower layers", f"{file_size(estimate.lower_bytes)}, for the level full"
    yield "Disk", file_size(estimate.disk_bytes)
    if estimate.table_bytes:
        yield "Table", f"{file_size(estimate.table_bytes)}, and the rows of the corpus"
    if estimate.seconds is not None:
        past = counted(estimate.past_jobs, "past conversion") if estimate.past_jobs else "other machines"
        yield "Conversion", f"{_minutes(estimate.seconds)}, roughly (from {past})"


def _minutes(seconds: EstimateRange) -> str:
    low, high = (max(1, round(end / 60)) for end in (seconds.low, seconds.high))
    return counted(high, "minute") if low == high else f"{low:,} to {counted(high, 'minute')}"
