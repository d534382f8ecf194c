"""Garbage collection of artifacts that no live version needs, and of the staging folders of ended jobs.

A version is live if it is building, ready or failed (it may be retried), or if one of its jobs is active. The
versions of a deleted model stay live for a grace period. A retired version is not live. A live version needs
its own artifacts and those of its ancestors, without tables that a compacted table replaces. Uploads are not
collected.
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

from tenants.accounts.models import Tenant
from tenants.base.advisory_lock import advisory_xact_lock
from tenants.base.disk import INCOMING
from versiontree.artifact_store import KINDS, ArtifactStore, staged_jobs, staging_folder
from versiontree.jobs.models import ACTIVE, Job
from versiontree.tree.models import Artifact, Evaluation, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.lineage import compacted_versions

log = logging.getLogger(__name__)

GRACE_S: Final = 24 * 3600.0
"""Newer artifacts are kept, because a job may be about to attach them. So are those of models that were
deleted more recently, because that may have been a mistake."""
LOCK: Final = "artifact references"
BATCH_SIZE: Final = 500
"""How many are removed under one lock, during which no job can attach artifacts."""

ArtifactName = tuple[str, str]
"""Kind and digest of an artifact."""


@dataclass(slots=True)
class CollectionReport:
    """What was removed, or would be in a dry run: artifacts, their bytes, and staging folders by job id."""

    artifacts: list[str] = field(default_factory=list)
    size: int = 0
    staging: list[str] = field(default_factory=list)


def artifacts_collect(*, grace_s: float = GRACE_S, dry_run: bool = False) -> CollectionReport:
    """Remove unneeded artifacts and staging folders older than ``grace_s``. ``dry_run`` only reports them."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    report = CollectionReport()
    candidates = _candidates(store, grace_s)
    for start in range(0, len(candidates), BATCH_SIZE):
        batch = candidates[start : start + BATCH_SIZE]
        removed = batch if dry_run else _remove(batch, store, grace_s)
        for (kind, digest), size in removed:
            report.artifacts.append(f"{kind}/{digest[:12]}")
            report.size += size
    report.staging = _remove_staging(store, grace_s, dry_run=dry_run)
    if report.artifacts or report.staging:
        log.info(
            "%s %d artifacts (%d bytes) and the staging folders of %d jobs",
            "Would remove" if dry_run else "Removed",
            len(report.artifacts),
            report.size,
            len(report.staging),
        )
    return report


def artifacts_discard(artifacts: list[tuple[ArtifactName, int]]) -> None:
    """Remove these artifacts without a grace period, unless a live version needs them."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    for start in range(0, len(artifacts), BATCH_SIZE):
        _remove(artifacts[start : start + BATCH_SIZE], store, GRACE_S, include_recent=True)


def job_folders_delete(*, tenant: Tenant) -> None:
    """Delete what the ended jobs of a tenant, and their killed workers, have left in the store."""
    root = Path(settings.HMI_ARTIFACT_ROOT)
    for job_id in Job.objects.for_tenant(tenant).values_list("pk", flat=True):
        for folder in (staging_folder(root, job_id), *root.glob(f"{INCOMING}/job-{job_id}-*")):
            shutil.rmtree(folder, ignore_errors=True)


def artifacts_needed(*, grace_s: float) -> set[int]:
    """The ids of the artifacts that live versions need, including models deleted less than ``grace_s`` ago.

    Four queries for any tree.
    """
    since = timezone.now() - timedelta(seconds=grace_s)
    versions = {version.pk: version for version in Version.unscoped.select_related("hplm").defer("metrics")}
    busy = set(Job.shown.filter(state__in=ACTIVE).values_list("version_id", flat=True))
    links: dict[int, list[tuple[str, int]]] = {}
    for version_id, role, artifact in VersionArtifact.unscoped.values_list("version", "role", "artifact"):
        links.setdefault(version_id, []).append((role, artifact))
    for version_id, artifact in Evaluation.unscoped.values_list("version", "artifact"):
        links.setdefault(version_id, []).append((Role.ANSWERS, artifact))
    needed: set[int] = set()
    for version in versions.values():
        if version.pk in busy or _is_live(version, since):
            needed.update(_needs(version, versions, links))
    return needed


def _is_live(version: Version, since: datetime) -> bool:
    deleted_at = version.hplm.deleted_at if version.hplm is not None else None
    if deleted_at is not None:
        return deleted_at > since
    return version.state != VersionState.RETIRED


def _needs(
    version: Version, versions: dict[int, Version], links: dict[int, list[tuple[str, int]]]
) -> Iterator[int]:
    """The ids of the artifacts of the version and its ancestors."""
    merged: set[int] = set()
    node: Version | None = version
    while node is not None:
        for role, artifact in links.get(node.pk, ()):
            if not (role == Role.PLOT and node.pk in merged):
                yield artifact
        # A compacted table that is being built still needs the tables that it replaces.
        if node.state in (VersionState.READY, VersionState.RETIRED) and node.pk not in merged:
            merged.update(compacted_versions(node.config))
        node = versions[node.parent_id] if node.parent_id is not None else None


def _candidates(store: ArtifactStore, grace_s: float) -> list[tuple[ArtifactName, int]]:
    """What may be removed, with its size: artifacts, oldest row first, then folders without a row."""
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
    candidates: list[tuple[ArtifactName, int]],
    store: ArtifactStore,
    grace_s: float,
    *,
    include_recent: bool = False,
) -> list[tuple[ArtifactName, int]]:
    """Remove rows, links and files of candidates that are still unneeded, and return them.

    The files are moved to a trash folder. They are deleted once the rows are, or moved back if that fails.
    """
    with _trash(store) as trash, transaction.atomic():
        advisory_xact_lock(LOCK)
        needed = artifacts_needed(grace_s=grace_s)
        digests = [digest for (_, digest), _ in candidates]
        rows = Artifact.objects.filter(digest__in=digests).values_list("kind", "digest", "pk")
        pks = {(kind, digest): pk for kind, digest, pk in rows}
        # A job may have written the files again, or added a row for them, since the candidates were listed.
        removed = [
            (name, size)
            for name, size in candidates
            if pks.get(name) not in needed and (include_recent or _is_old(store.path(*name), grace_s))
        ]
        gone = [pks[name] for name, _ in removed if name in pks]
        VersionArtifact.unscoped.filter(artifact__in=gone).delete()
        Artifact.objects.filter(pk__in=gone).delete()
        for (kind, digest), _ in removed:
            trash.move(store.path(kind, digest))
    return removed


class _Trash:
    """Folders that were moved out of the store, with their former paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.moved: list[tuple[Path, Path]] = []

    def move(self, folder: Path) -> None:
        """Move a folder into the trash, if it exists."""
        with suppress(FileNotFoundError):
            self.moved.append((folder.rename(self.root / f"collected-{uuid4().hex}"), folder))


@contextmanager
def _trash(store: ArtifactStore) -> Iterator[_Trash]:
    """A trash that is emptied at the end, or whose folders are moved back after an error."""
    trash = _Trash(store.root / INCOMING)
    trash.root.mkdir(parents=True, exist_ok=True)
    try:
        yield trash
    except BaseException:
        for moved, folder in trash.moved:
            with suppress(OSError):  # the same artifact was written again meanwhile
                moved.rename(folder)
        raise
    for moved, _ in trash.moved:
        shutil.rmtree(moved, ignore_errors=True)


def _folders(store: ArtifactStore) -> Iterator[tuple[str, Path]]:
    for kind in KINDS:
        yield from ((kind, folder) for folder in sorted(store.root.glob(f"{kind}/??/*")) if folder.is_dir())


def _is_old(folder: Path, grace_s: float) -> bool:
    """Whether the folder was not written for ``grace_s``. A folder that does not exist is old."""
    try:
        return time.time() - folder.stat().st_mtime >= grace_s
    except FileNotFoundError:
        return True


def _size(folder: Path) -> int:
    """Bytes of the files in a folder, 0 if it is gone."""
    with suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return 0


def _remove_staging(store: ArtifactStore, grace_s: float, *, dry_run: bool) -> list[str]:
    """Remove the staging folders of jobs that are not active, and return the job ids."""
    found = dict(staged_jobs(store.root))
    active = Job.unscoped.filter(pk__in=found, state__in=ACTIVE).values_list("pk", flat=True)
    removed = []
    for job_id in sorted(found.keys() - set(active), key=str):
        if not _is_old(found[job_id], grace_s):
            continue
        if not dry_run:
            shutil.rmtree(found[job_id], ignore_errors=True)
        removed.append(str(job_id))
    return removed


def artifact_refs_lock() -> None:
    """Keep the collector from removing artifacts until the transaction ends. The lock is shared."""
    advisory_xact_lock(LOCK, shared=True)
