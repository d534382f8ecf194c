"""The choices and the estimate in the wizard for a new model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from frontend.presenters.data import task_of
from frontend.presenters.formatting import time_amount, time_range
from frontend.presenters.snippets import Snippets, snippets_of
from frontend.presenters.versions import parent_name
from tenants.base.plurals import counted
from tenants.datasets.models import TASKS_WITHOUT_LABELS, Dataset
from versiontree.tree.models import Coverage, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.estimates import Estimate
from versiontree.tree.training_fields import setting_label

SMALL_DIFFERENCE = 0.01
"""A difference in coverage below this does not matter for training."""


@dataclass(frozen=True, slots=True)
class DataChoice:
    """A dataset in the list of the first step."""

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
    """A parent in the list of the second step. `why` is the reason of a recommendation."""

    pk: int
    name: str
    kind: str
    description: str
    measured: bool
    error_message: str
    why: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class EstimateShown:
    """A formatted estimate of time, storage and queue position."""

    time: str
    basis: str
    quick: str
    storage: int | None
    place: int
    wait: str


def data_choices(datasets: Iterable[Dataset], chosen: Dataset | None) -> list[DataChoice]:
    """Return the datasets to choose from, the chosen one first."""
    others = [dataset for dataset in datasets if chosen is None or dataset.pk != chosen.pk]
    return [_data_choice(one, chosen=one is chosen) for one in ([chosen, *others] if chosen else others)]


def parent_choices(
    targets: Sequence[Version], measured: Iterable[Coverage], chosen: int | None, *, measuring: bool
) -> list[ParentChoice]:
    """Return the parents to choose from: by coverage, then those without a measurement.

    When all are measured, the best one is recommended, and chosen by default.
    """
    known = {coverage.version_id: coverage for coverage in measured}
    able = [one for one in targets if one.pk in known and not known[one.pk].error_message]
    ranked = sorted(able, key=lambda one: known[one.pk].rank, reverse=True)
    rest = [one for one in targets if one not in ranked]
    best = ranked[0] if ranked and not measuring else None
    default = best or (
        next((one for one in rest if one.kind == VersionKind.ROOT), None) if not measuring else None
    )
    wanted = chosen if chosen is not None else default.pk if default else None
    return [
        _parent_choice(
            version,
            known.get(version.pk),
            why=_why(ranked, known) if version is best else "",
            chosen=version.pk == wanted,
        )
        for version in [*ranked, *rest]
    ]


def estimate_shown(estimate: Estimate) -> EstimateShown:
    """Format an estimate."""
    jobs, wait, until_ready = estimate.past_jobs, estimate.queue.wait_s, estimate.until_ready
    basis = f"from {counted(jobs, 'past job')} of this root" if jobs else "from your time limit"
    return EstimateShown(
        time="Unknown yet" if until_ready is None else time_range(until_ready),
        basis=(
            "too few past jobs of this root"
            if until_ready is None
            else basis + (", without the wait in the queue" if wait is None else "")
        ),
        quick="" if estimate.quick_seconds is None else time_range(estimate.quick_seconds),
        storage=estimate.storage_bytes,
        place=estimate.queue.position,
        wait=_wait(wait),
    )


def _wait(seconds: float | None) -> str:
    if seconds is None:
        return "start time unknown yet"
    return "starts immediately" if seconds < 1 else f"starts in about {time_amount(seconds)}"


def settings_shown(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the chosen settings by their labels."""
    yes_no = {True: "Yes", False: "No"}
    return {
        setting_label(name): yes_no[value] if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def call_of(request: HttpRequest, body: Mapping[str, Any]) -> Snippets:
    """Return the API request that creates the same model."""
    return snippets_of(request.build_absolute_uri("/api/v1/models"), body)


def _data_choice(dataset: Dataset, *, chosen: bool) -> DataChoice:
    report = dataset.report
    splits = {split.split: split.rows for split in dataset.splits.all()}
    labels = 0 if dataset.task in TASKS_WITHOUT_LABELS else len(dataset.labels)
    mean = report.get("splits", {}).get("train", {}).get("words_per_row", {}).get("mean")
    about = [counted(labels, "label")] if labels else []
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
    measured = coverage is not None and not coverage.error_message
    return ParentChoice(
        pk=version.pk,
        name=parent_name(version),
        kind=VersionKind(version.kind).label,
        description=version.domain.description if version.domain else "",
        measured=measured,
        error_message=coverage.error_message if coverage else "",
        why=why,
        chosen=chosen,
    )


def _why(ranked: Sequence[Version], known: Mapping[int, Coverage]) -> str:
    """Return in a sentence why the first version is recommended, and what it changes."""
    shares = [known[one.pk].trigrams / (known[one.pk].fragments or 1) for one in ranked[:2]]
    if len(shares) > 1 and shares[0] - shares[1] < SMALL_DIFFERENCE:
        return "It knows your texts about as well as the next one, so either will do."
    return "It knows most of the phrases in your texts, so fast answers lose the least."
