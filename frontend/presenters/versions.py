"""Rows of versions, and which of them can be promoted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from frontend.presenters.formatting import few_rows_interval, metric_figure, metric_name, metric_value
from versiontree.tree.models import Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.evaluations import own_test_sha256
from versiontree.tree.selectors.versions import as_mapping


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A row of a version. `metric` and `baseline` are formatted figures of the test split, `interval` is the
    95 % interval of an accuracy of few rows; `job` is the id of the first job. `compared_with` is the number
    of the version that a page compares it with first."""

    version: Version
    aliases: list[str]
    source: str
    job: UUID | None
    metric: str
    metric_name: str
    baseline: str
    interval: str = ""
    compared_with: int | None = None


def version_row(version: Version) -> VersionRow:
    """Return the row of a version. Its aliases and jobs should be prefetched."""
    measured = measurements(version)
    metric, interval = _metric(measured)
    return VersionRow(
        version,
        aliases=sorted(alias.name for alias in version.aliases.all()),
        source=source_name(version),
        job=_first_job(version),
        metric=metric,
        metric_name=metric_name(measured),
        baseline=_baseline(measured),
        interval=interval,
    )


def version_rows(versions: Iterable[Version], *, default: Version | None = None) -> list[VersionRow]:
    """Return the rows of versions, in the given order. Metrics of other test rows than those of `default` are
    left out, as a table would set them side by side. A version is compared with the default, which itself is
    compared with the one before it."""
    rows: list[VersionRow] = []
    for version in versions:
        row = version_row(version)
        if default is not None and row.metric and not same_test(version, default):
            row = replace(row, metric="", metric_name="other test rows", baseline="", interval="")
        rows.append(row)
    shown = [row.version.number for row in rows if row.metric]
    return [replace(row, compared_with=_compared_with(row, default, shown)) for row in rows]


def _compared_with(row: VersionRow, default: Version | None, shown: Sequence[int]) -> int | None:
    if not row.metric:
        return None
    if default is not None and default != row.version and default.number in shown:
        return default.number
    return max((number for number in shown if number < row.version.number), default=None)


def same_test(*versions: Version) -> bool:
    """Return whether the metrics of versions are of the same test rows."""
    return len({own_test_sha256(version) or version.pk for version in versions}) == 1


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


def _metric(measured: Mapping[str, Any]) -> tuple[str, str]:
    """Return the metric and its interval."""
    value = measured.get("value")
    if not isinstance(value, int | float):
        return "", ""
    name, rows = str(measured.get("metric", "")), measured.get("rows")
    return metric_figure(name, value, rows), few_rows_interval(name, value, rows)


def _baseline(measured: Mapping[str, Any]) -> str:
    value = None if "mean_answer_error" in measured else measured.get("majority_baseline")
    return metric_value(str(measured.get("metric", "")), value) if isinstance(value, int | float) else ""


def source_name(version: Version) -> str:
    """Return the name of the dataset or corpus that a version was trained on; empty if unknown."""
    given = version.config.get("dataset") or version.config.get("corpus") or {}
    return str(as_mapping(given).get("name", ""))
