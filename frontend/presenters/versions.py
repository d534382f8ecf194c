"""Rows of versions, and which of them can be promoted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from frontend.presenters.formatting import metric_name, metric_value
from versiontree.tree.models import Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind, VersionState


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A row of a version. `metric` and `baseline` are formatted figures of the test split.

    `fragments` is the size of a domain's lookup table; `job` is the first job of the version.
    """

    pk: int
    number: int
    state: str
    aliases: list[str]
    at: datetime
    source: str
    job: UUID | None
    metric: str
    metric_name: str
    baseline: str
    alpha: float | None
    fragments: int | None


def version_row(version: Version) -> VersionRow:
    """Return the row of a version. Its aliases and jobs should be prefetched."""
    measured = measurements(version)
    return VersionRow(
        pk=version.pk,
        number=version.number,
        state=version.state,
        aliases=sorted(alias.name for alias in version.aliases.all()),
        at=version.created_at,
        source=_source(version.config),
        job=_first_job(version),
        metric=_metric(measured, "value"),
        metric_name=metric_name(measured),
        baseline=_metric(measured, "majority_baseline"),
        alpha=version.config.get("alpha"),
        fragments=version.metrics.get("build_plot", {}).get("rows"),
    )


def version_rows(versions: Iterable[Version]) -> list[VersionRow]:
    """Return the rows of versions, in the given order."""
    return [version_row(version) for version in versions]


def measurements(version: Version) -> Mapping[str, Any]:
    """Return the report of a version's evaluation; empty without one."""
    found: Mapping[str, Any] = version.metrics.get("evaluate", {})
    return found


def parent_name(version: Version) -> str:
    """Return the name of a version as a parent: minilm v1, minilm / python-docs v2."""
    if version.kind == VersionKind.DOMAIN and version.domain is not None:
        return f"{version.domain.root.name} / {version.domain.name} v{version.number}"
    return f"{version.name} v{version.number}"


def promotable(versions: Iterable[Version]) -> list[Version]:
    """Return the ready versions that are not the default."""
    return [
        version
        for version in versions
        if is_ready(version) and all(alias.name != DEFAULT_ALIAS for alias in version.aliases.all())
    ]


def is_ready(version: Version) -> bool:
    """Return whether a version is ready."""
    return version.state == VersionState.READY


def _first_job(version: Version) -> UUID | None:
    """Return the id of the job that began the build. Later evaluations are other jobs."""
    begun = [job for job in version.jobs.all() if job.after_id is None]
    return min(begun, key=lambda job: job.created_at).pk if begun else None


def _metric(measured: Mapping[str, Any], key: str) -> str:
    value = measured.get(key)
    return metric_value(str(measured.get("metric", "")), value) if isinstance(value, int | float) else ""


def _source(config: Mapping[str, Any]) -> str:
    given: Mapping[str, Any] = config.get("dataset") or config.get("corpus") or {}
    return str(given.get("name", ""))
