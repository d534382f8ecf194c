"""The steps of a new model as their pages show them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from frontend.presenters.charts import ChartPart
from frontend.presenters.coverage import covered_parts
from frontend.presenters.data import task_of
from frontend.presenters.snippets import Snippets, snippets_of
from frontend.presenters.versions import parent_name
from tenants.datasets.models import Dataset, Task
from versiontree.tree.models import Coverage, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.estimates import Estimate
from versiontree.tree.selectors.past_jobs import EstimateRange
from versiontree.tree.training_fields import setting_label

MINUTE, HOUR, DAY = 60, 3600, 86_400
HARDLY = 0.01
"""A share of fragments that makes no difference to what a model learns."""
UNLABELLED = (Task.REGRESSION, Task.QUESTION_ANSWERING)


@dataclass(frozen=True, slots=True)
class DataChoice:
    """A dataset to choose."""

    pk: int
    name: str
    task: str
    rows: int
    splits: str
    about: str
    warnings: list[str]
    chosen: bool


@dataclass(frozen=True, slots=True)
class ParentChoice:
    """A version to build upon, and what its tables hold of the dataset; `share` is None while that is not
    known, `why` says why it is recommended."""

    pk: int
    name: str
    kind: str
    description: str
    share: float | None
    parts: list[ChartPart]
    error_message: str
    why: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class EstimateShown:
    """An estimate in words."""

    time: str
    basis: str
    storage: int | None
    storage_is_rough: bool
    holds: str
    place: int
    wait: str


def data_choices(datasets: Iterable[Dataset], chosen: Dataset | None) -> list[DataChoice]:
    """The chosen one first, whether it is among them or not."""
    others = [dataset for dataset in datasets if chosen is None or dataset.pk != chosen.pk]
    return [_data_choice(one, chosen=one is chosen) for one in ([chosen, *others] if chosen else others)]


def parent_choices(
    targets: Sequence[Version], measured: Iterable[Coverage], chosen: int | None, *, measuring: bool
) -> list[ParentChoice]:
    """The best by coverage first, then what is not measured. Once all is measured the best is recommended,
    and chosen where nothing else is."""
    known = {coverage.version_id: coverage for coverage in measured}
    able = [one for one in targets if one.pk in known and not known[one.pk].error_message]
    ranked = sorted(able, key=lambda one: known[one.pk].rank, reverse=True)
    rest = [one for one in targets if one not in ranked]
    best = ranked[0] if ranked and not measuring else None
    usual = best or (
        next((one for one in rest if one.kind == VersionKind.ROOT), None) if not measuring else None
    )
    wanted = chosen if chosen is not None else usual.pk if usual else None
    return [
        _parent_choice(
            version,
            known.get(version.pk),
            why=_why(ranked, known) if version is best else "",
            chosen=version.pk == wanted,
        )
        for version in [*ranked, *rest]
    ]


def estimate_shown(estimate: Estimate, *, holds: str) -> EstimateShown:
    """In words, with how sure they are; ``holds`` says what is stored."""
    jobs, wait = estimate.past_jobs, estimate.queue.wait_s
    return EstimateShown(
        time=in_words(estimate.seconds),
        basis=(
            f"from {jobs} similar job{'' if jobs == 1 else 's'}"
            if jobs
            else "rough estimate: few similar jobs have run here"
        ),
        storage=estimate.storage_bytes,
        storage_is_rough=estimate.storage_is_rough,
        holds=holds,
        place=estimate.queue.position,
        wait="unknown" if wait is None else "none" if wait < 1 else f"about {_amount(wait)}",
    )


def settings_shown(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that were chosen, by their labels."""
    words = {True: "Yes", False: "No"}
    return {
        setting_label(name): words[value] if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def in_words(span: EstimateRange) -> str:
    """About 3 to 6 minutes; about 40 seconds."""
    low, high = _rounded(span.low), _rounded(span.high)
    if low == high:
        return f"about {_amount(high)}"
    unit = _unit(high)
    first = f"{low / unit:.3g}" if _unit(low) == unit else _amount(low)
    return f"about {first} to {_amount(high)}"


def call_of(request: HttpRequest, body: Mapping[str, Any]) -> Snippets:
    """The same thing as an API call."""
    return snippets_of(request.build_absolute_uri("/api/v1/models"), body)


def _data_choice(dataset: Dataset, *, chosen: bool) -> DataChoice:
    report = dataset.report
    splits = {split.split: split.rows for split in dataset.splits.all()}
    labels = 0 if dataset.task in UNLABELLED else len(dataset.labels)
    mean = report.get("splits", {}).get("train", {}).get("words_per_row", {}).get("mean")
    about = [f"{labels} label{'' if labels == 1 else 's'}"] if labels else []
    about += [f"{mean:g} words per row"] if mean is not None else []
    return DataChoice(
        pk=dataset.pk,
        name=dataset.name,
        task=task_of(dataset),
        rows=sum(splits.values()),
        splits=", ".join(f"{rows:,} {name}" for name, rows in splits.items()),
        about=", ".join(about),
        warnings=report.get("warnings", []),
        chosen=chosen,
    )


def _parent_choice(version: Version, coverage: Coverage | None, *, why: str, chosen: bool) -> ParentChoice:
    told = coverage is not None and not coverage.error_message
    whole = (coverage.fragments or 1) if coverage else 1
    return ParentChoice(
        pk=version.pk,
        name=parent_name(version),
        kind=VersionKind(version.kind).label,
        description=version.domain.description if version.domain else "",
        share=coverage.trigrams / whole if told and coverage else None,
        parts=covered_parts(coverage) if told and coverage else [],
        error_message=coverage.error_message if coverage else "",
        why=why,
        chosen=chosen,
    )


def _why(ranked: Sequence[Version], known: Mapping[int, Coverage]) -> str:
    """Why the first of them is recommended."""
    shares = [known[one.pk].trigrams / (known[one.pk].fragments or 1) for one in ranked[:2]]
    if len(shares) < 2:
        return f"its lookup tables cover {shares[0]:.1%} of the fragments of your texts"
    hardly = " (a small difference)" if shares[0] - shares[1] < HARDLY else ""
    return (
        f"its lookup tables cover {shares[0]:.1%} of the fragments of your texts, "
        f"those of the second best {shares[1]:.1%}{hardly}"
    )


def _unit(seconds: float) -> int:
    return next((unit for unit in (DAY, HOUR, MINUTE) if seconds >= 2 * unit), 1)


def _rounded(seconds: float) -> float:
    """To as many digits as an estimate has."""
    unit = _unit(seconds)
    amount = seconds / unit
    return max(1.0, round(amount) if amount < 10 else round(amount / 5) * 5) * unit


def _amount(seconds: float) -> str:
    seconds = _rounded(seconds)
    unit = _unit(seconds)
    word = {1: "second", MINUTE: "minute", HOUR: "hour", DAY: "day"}[unit]
    amount = seconds / unit
    return f"{amount:.3g} {word}{'' if amount == 1 else 's'}"
