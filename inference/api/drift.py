"""Drift: days on which a version answers otherwise than its cascade did on the dev split."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import transaction

from inference.cascade.dispatcher import Coverage
from inference.cascade.profile import CascadeProfile, LevelProfile
from inference.errors import HplmError
from tenants.base.scope import platform_scope
from tenants.base.ttl_cache import cached
from tenants.usage.models import AnswerDay
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Version
from versiontree.tree.selectors.versions import hplm_versions_named
from versiontree.tree.services.webhook_notifications import drift_notify

MIN_DEV_ROWS: Final = 50
"""A smaller dev split measures no band."""
PROFILE_KEPT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a day beside that of the dev split, both from 0 to 1; texts: over so many."""

    name: str
    served: float
    dev: float
    texts: int

    def leaves_band(self, tolerance: float, min_texts: int) -> bool:
        """Whether it is off by more than the tolerance, over enough texts."""
        return self.texts >= min_texts and abs(self.served - self.dev) > tolerance

    def __str__(self) -> str:
        return f"{self.name} {self.served:.1%} ({self.dev:.1%} on dev)"


def figures(day: AnswerDay, profile: CascadeProfile) -> Iterator[Figure]:
    """What is known both of the day and of the dev split."""
    served, dev = day.mean_confidence, _dev_confidence(day, profile)
    if served is not None and dev is not None:
        yield Figure("confidence", served, dev, day.texts)
    if day.escalated_share is not None:
        yield Figure("escalated", day.escalated_share, profile.candidate().escalated, day.cascade_texts)
    if day.coverage is not None and profile.coverage is not None and profile.coverage != Coverage():
        whole = 1 - sum(profile.coverage.shares)
        yield Figure("whole fragments", day.coverage[0], whole, day.table_texts)


def _dev_confidence(day: AnswerDay, profile: CascadeProfile) -> float | None:
    """The mean confidence on dev of the levels that read the day's texts first."""
    table, full = _mean_confidence(profile.table), _mean_confidence(profile.full)
    if table is None or full is None or not day.texts:
        return None
    share = day.table_texts / day.texts
    return share * table + (1 - share) * full


def _mean_confidence(level: LevelProfile) -> float | None:
    rows = sum(each.rows for each in level.bins)
    return sum(each.rows * each.confidence for each in level.bins) / rows if rows else None


@platform_scope()
def drift_watch() -> int:
    """Record each version's day that leaves its band, yesterday and today (UTC), and notify its tenant's
    webhooks, once. Returns how many did."""
    since = datetime.now(UTC).date() - timedelta(days=1)
    min_texts = settings.HMI_DRIFT_MIN_TEXTS
    rows = AnswerDay.unscoped.filter(day__gte=since, texts__gte=min_texts, drift="")
    days = {(row.tenant_id, row.model_name, row.version, row.day): row for row in rows}
    versions = hplm_versions_named({key[:3] for key in days})
    return sum(_record(row, versions[key[:3]]) for key, row in days.items() if key[:3] in versions)


def _record(day: AnswerDay, version: Version) -> bool:
    """Whether this day leaves its band and was not recorded before."""
    profile = _profile(version.digest)
    if profile is None or profile.rows < MIN_DEV_ROWS:
        return False
    tolerance, min_texts = settings.HMI_DRIFT_TOLERANCE, settings.HMI_DRIFT_MIN_TEXTS
    outside = [each for each in figures(day, profile) if each.leaves_band(tolerance, min_texts)]
    return bool(outside) and drift_record(day=day, version=version, outside=outside)


@transaction.atomic
def drift_record(*, day: AnswerDay, version: Version, outside: list[Figure]) -> bool:
    """Record which figures of a day are outside of their band, and notify webhooks. Returns whether this call
    was the first."""
    first = AnswerDay.unscoped.filter(pk=day.pk, drift="").update(drift=", ".join(map(str, outside)))
    if first:
        served = {each.name: {"served": each.served, "dev": each.dev} for each in outside}
        drift_notify(version=version, day=day.day, figures=served)
    return bool(first)


def _profile(digest: str) -> CascadeProfile | None:
    """The cascade of a version; None where it has none, or none that can be read."""

    def load() -> CascadeProfile | None:
        try:
            return CascadeProfile.load(ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("hplm", digest))
        except HplmError:
            return None  # the version's page says so

    return cached(f"cascade:{digest}", load, PROFILE_KEPT_S)
