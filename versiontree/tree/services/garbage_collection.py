"""Collecting garbage: artifacts that nothing living needs, and what ended jobs left behind.

Living are versions that are ready, being built, or failed and so still to be retried; those of a deleted
model for a while after it was deleted, and no longer; and any version that a job is at work for. A retired
version of a domain says not since when it is, so it is kept only by what stands on it. A living version
needs its own artifacts and those of the versions above it, less the tables that a compacted one holds for
it. Uploads are not looked at.
"""

import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tenants.base.advisory_lock import advisory_xact_lock
from tenants.base.disk import INCOMING
from versiontree.artifact_store import KINDS, ArtifactStore, staged_jobs
from versiontree.jobs.models import ACTIVE, Job
from versiontree.tree.models import Artifact, Evaluation, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.lineage import compacted_versions

log = logging.getLogger(__name__)

GRACE_S: Final = 24 * 3600.0
"""What was made since stays, as a job may be about to attach it; so does what a model needs that was deleted
since, as a person may notice a mistake."""
LOCK: Final = "artifact references"
BATCH_SIZE: Final = 500
"""So many are removed under one lock: nobody can attach meanwhile."""

ArtifactName = tuple[str, str]
"""Kind and digest of an artifact."""


@dataclass(slots=True)
class CollectionReport:
    """What was removed, or would have been: artifacts by name, bytes, staging folders by job."""

    artifacts: list[str] = field(default_factory=list)
    size: int = 0
    staging: list[str] = field(default_factory=list)


def artifacts_collect(*, grace_s: float = GRACE_S, dry_run: bool = False) -> CollectionReport:
    """Remove what nothing living needs and what is older than ``grace_s``; with ``dry_run`` only say so."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    done = CollectionReport()
    found = _candidates(store, grace_s)
    for start in range(0, len(found), BATCH_SIZE):
        chosen = found[start : start + BATCH_SIZE]
        removed = chosen if dry_run else _remove(chosen, store, grace_s)
        for (kind, digest), size in removed:
            done.artifacts.append(f"{kind}/{digest[:12]}")
            done.size += size
    done.staging = _remove_staging(store, grace_s, dry_run=dry_run)
    if done.artifacts or done.staging:
        log.info(
            "%s %d artifacts (%d bytes) and the leftovers of %d jobs",
            "Would remove" if dry_run else "Removed",
            len(done.artifacts),
            done.size,
            len(done.staging),
        )
    return done


def artifacts_discard(artifacts: list[tuple[ArtifactName, int]]) -> None:
    """Remove these at once, with no time of grace, unless something living needs them: what they belonged to
    is gone for good."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    for start in range(0, len(artifacts), BATCH_SIZE):
        _remove(artifacts[start : start + BATCH_SIZE], store, GRACE_S, include_recent=True)


def artifacts_needed(*, grace_s: float) -> set[int]:
    """The ids of the artifacts that living versions need, those of models that were deleted less than
    ``grace_s`` ago among them; four queries for any tree."""
    since = timezone.now() - timedelta(seconds=grace_s)
    versions = {version.pk: version for version in Version.unscoped.select_related("hplm").defer("metrics")}
    busy = set(Job.unscoped.filter(state__in=ACTIVE).values_list("version_id", flat=True))
    links: dict[int, list[tuple[str, int]]] = {}
    for version_id, role, artifact in VersionArtifact.unscoped.values_list("version", "role", "artifact"):
        links.setdefault(version_id, []).append((role, artifact))
    for version_id, artifact in Evaluation.unscoped.values_list("version", "artifact"):
        links.setdefault(version_id, []).append((Role.ANSWERS, artifact))
    needed: set[int] = set()
    for version in versions.values():
        if version.pk in busy or _is_living(version, since):
            needed.update(_needs(version, versions, links))
    return needed


def _is_living(version: Version, since: datetime) -> bool:
    deleted_at = version.hplm.deleted_at if version.hplm is not None else None
    if deleted_at is not None:
        return deleted_at > since
    return version.state != VersionState.RETIRED


def _needs(
    version: Version, versions: dict[int, Version], links: dict[int, list[tuple[str, int]]]
) -> Iterator[int]:
    """The artifacts of the version and of those above it."""
    held: set[int] = set()
    node: Version | None = version
    while node is not None:
        for role, artifact in links.get(node.pk, ()):
            if not (role == Role.PLOT and node.pk in held):
                yield artifact
        # While it is being made, a compacted table needs those that it is to hold.
        if node.state in (VersionState.READY, VersionState.RETIRED) and node.pk not in held:
            held.update(compacted_versions(node.config))
        node = versions[node.parent_id] if node.parent_id is not None else None


def _candidates(store: ArtifactStore, grace_s: float) -> list[tuple[ArtifactName, int]]:
    """What may be removed, with its size: artifacts by age of their row, then files that no row speaks of."""
    needed = artifacts_needed(grace_s=grace_s)
    known: set[ArtifactName] = set()
    found: list[tuple[ArtifactName, int]] = []
    since = timezone.now() - timedelta(seconds=grace_s)
    rows = Artifact.objects.order_by("pk").values_list("pk", "kind", "digest", "size", "created_at")
    for pk, kind, digest, size, created_at in rows:
        known.add((kind, digest))
        if pk not in needed and created_at <= since and _is_old(store.path(kind, digest), grace_s):
            found.append(((kind, digest), size))
    for kind, folder in _folders(store):
        if (kind, folder.name) not in known and _is_old(folder, grace_s):
            found.append(((kind, folder.name), _size(folder)))
    return found


def _remove(
    chosen: list[tuple[ArtifactName, int]],
    store: ArtifactStore,
    grace_s: float,
    *,
    include_recent: bool = False,
) -> list[tuple[ArtifactName, int]]:
    """Remove rows, links and files, but of what somebody needs after all; returns what went.

    Files go only once the rows are gone for good: until then they are aside, and come back if that fails.
    """
    with _trash(store) as aside, transaction.atomic():
        advisory_xact_lock(LOCK)
        needed = artifacts_needed(grace_s=grace_s)
        digests = [digest for (_, digest), _ in chosen]
        rows = Artifact.objects.filter(digest__in=digests).values_list("kind", "digest", "pk")
        pks = {(kind, digest): pk for kind, digest, pk in rows}
        # Files that a job makes again are young again, and those that had no row may have one by now.
        removed = [
            (name, size)
            for name, size in chosen
            if pks.get(name) not in needed and (include_recent or _is_old(store.path(*name), grace_s))
        ]
        gone = [pks[name] for name, _ in removed if name in pks]
        VersionArtifact.unscoped.filter(artifact__in=gone).delete()
        Artifact.objects.filter(pk__in=gone).delete()
        for (kind, digest), _ in removed:
            aside.take(store.path(kind, digest))
    return removed


class _Trash:
    """Folders taken out of the store in one step each, and where they were."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.taken: list[tuple[Path, Path]] = []

    def take(self, folder: Path) -> None:
        """Take it out if it is there."""
        with suppress(FileNotFoundError):
            self.taken.append((folder.rename(self.root / f"collected-{uuid4().hex}"), folder))


@contextmanager
def _trash(store: ArtifactStore) -> Iterator[_Trash]:
    """What is taken within is removed at the end, or put back when there is an error."""
    aside = _Trash(store.root / INCOMING)
    aside.root.mkdir(parents=True, exist_ok=True)
    try:
        yield aside
    except BaseException:
        for taken, folder in aside.taken:
            with suppress(OSError):  # somebody has made the same again meanwhile
                taken.rename(folder)
        raise
    for taken, _ in aside.taken:
        shutil.rmtree(taken, ignore_errors=True)


def _folders(store: ArtifactStore) -> Iterator[tuple[str, Path]]:
    for kind in KINDS:
        yield from ((kind, folder) for folder in sorted(store.root.glob(f"{kind}/??/*")) if folder.is_dir())


def _is_old(folder: Path, grace_s: float) -> bool:
    """Not made, or made again, a short while ago: a job touches the folder of what it makes. What is not
    there, or goes while it is looked at, is old."""
    try:
        return time.time() - folder.stat().st_mtime >= grace_s
    except FileNotFoundError:
        return True


def _size(folder: Path) -> int:
    """Bytes of the files in a folder, 0 when it goes meanwhile."""
    with suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return 0


def _remove_staging(store: ArtifactStore, grace_s: float, *, dry_run: bool) -> list[str]:
    """Staging folders of jobs that have ended, or are gone."""
    found = dict(staged_jobs(store.root))
    active = Job.unscoped.filter(pk__in=found, state__in=ACTIVE).values_list("pk", flat=True)
    left = []
    for job_id in sorted(found.keys() - set(active), key=str):
        if not _is_old(found[job_id], grace_s):
            continue
        if not dry_run:
            shutil.rmtree(found[job_id], ignore_errors=True)
        left.append(str(job_id))
    return left


def artifact_refs_lock() -> None:
    """Keep the collector out until the transaction ends. Many transactions may attach artifacts at once.

    Under this lock an artifact that is in the store stays there.
    """
    advisory_xact_lock(LOCK, shared=True)
