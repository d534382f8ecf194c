"""Versions of domains and models as pages show them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from frontend.presenters.metrics import metric_name, written
from versiontree.tree.models import Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.versions import alias_moves_of

MOVES_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version: its state, the aliases that point at it, and what its jobs measured (None: nothing yet).

    `metric` and `baseline` are written figures of the test split; `fragments` counts the rows of a domain's
    PLOT; `job` is the version's first job.
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
    """The row of one version; its aliases and jobs should be loaded already."""
    measured = measurements(version)
    return VersionRow(
        pk=version.pk,
        number=version.number,
        state=version.state,
        aliases=sorted(alias.name for alias in version.aliases.all()),
        at=version.created_at,
        source=_source(version.config),
        job=_first_job(version),
        metric=_written(measured, "value"),
        metric_name=metric_name(measured),
        baseline=_written(measured, "majority_baseline"),
        alpha=version.config.get("alpha"),
        fragments=version.metrics.get("build_plot", {}).get("rows"),
    )


def version_rows(versions: Iterable[Version]) -> list[VersionRow]:
    """The rows of a list, in the order given."""
    return [version_row(version) for version in versions]


def measurements(version: Version) -> Mapping[str, Any]:
    """What the evaluate job of a version measured; empty before it ran."""
    found: Mapping[str, Any] = version.metrics.get("evaluate", {})
    return found


def parent_name(version: Version) -> str:
    """A root's or domain's version as people choose it: minilm v1, minilm / python-docs v2."""
    if version.kind == VersionKind.DOMAIN and version.domain is not None:
        return f"{version.domain.root.name} / {version.domain.name} v{version.number}"
    return f"{version.name} v{version.number}"


def rollback_target(hplm: Hplm, default: Version | None) -> Version | None:
    """The version that answered before this one did, if it still can; one query. What was rolled back is not
    come before: it is taken off, as its promotion had put it on."""
    moves = alias_moves_of(hplm).filter(name=DEFAULT_ALIAS)[:MOVES_LOOKED_AT]
    stood: list[Version | None] = []
    for move in reversed(moves):
        stood = stood or [move.from_version]
        if len(stood) > 1 and stood[-2] == move.to_version:
            stood.pop()
        else:
            stood.append(move.to_version)
    before = stood[-2] if len(stood) > 1 and stood[-1] == default else None
    return before if before is not None and is_ready(before) else None


def promotable(versions: Iterable[Version]) -> list[Version]:
    """Those of a model's versions that could answer by default and do not."""
    return [
        version
        for version in versions
        if is_ready(version) and all(alias.name != DEFAULT_ALIAS for alias in version.aliases.all())
    ]


def is_ready(version: Version) -> bool:
    """Whether it can answer and be built upon."""
    return version.state == VersionState.READY


def _first_job(version: Version) -> UUID | None:
    """The job that its building began with: it may have been evaluated again since."""
    begun = [job for job in version.jobs.all() if job.after_id is None]
    return min(begun, key=lambda job: job.created_at).pk if begun else None


def _written(measured: Mapping[str, Any], key: str) -> str:
    value = measured.get(key)
    return written(str(measured.get("metric", "")), value) if isinstance(value, int | float) else ""


def _source(config: Mapping[str, Any]) -> str:
    given: Mapping[str, Any] = config.get("dataset") or config.get("corpus") or {}
    return str(given.get("name", ""))
