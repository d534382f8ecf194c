"""Collecting garbage: artifacts that nothing living needs, and what ended jobs left behind.

Living are versions that are ready, being built, or failed and so still to be retried, unless their hPLM is
deleted; and any version that a job is at work for. A living version needs its own artifacts and those of the
versions above it, less the tables that a compacted one holds for it. Uploads are not looked at.
"""

import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tenants.workspaces import INCOMING
from versiontree.artifacts import KINDS, ArtifactStore
from versiontree.chains import compacted_by
from versiontree.models import Artifact, Job, Version, VersionArtifact
from versiontree.models.artifact import Role
from versiontree.models.job import ACTIVE
from versiontree.models.version import VersionState
from versiontree.services.attaching import collecting_begin
from versiontree.staging import staged_jobs

log = logging.getLogger(__name__)

GRACE_S: Final = 24 * 3600.0
"""What is younger stays: a job may be about to attach it, or a person to notice a mistake."""


@dataclass(slots=True)
class Collected:
    """What was removed, or would have been: artifacts by name, bytes, staging folders by job."""

    artifacts: list[str] = field(default_factory=list)
    size: int = 0
    staging: list[str] = field(default_factory=list)


def artifacts_collect(*, grace_s: float = GRACE_S, dry_run: bool = False) -> Collected:
    """Remove what nothing living needs and what is older than ``grace_s``; with ``dry_run`` only say so."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    done = Collected()
    needed = artifacts_needed()
    for artifact in Artifact.objects.exclude(pk__in=needed).order_by("pk"):
        if _is_young(artifact, store, grace_s):
            continue
        if dry_run or _remove(artifact, store):
            done.artifacts.append(str(artifact))
            done.size += artifact.size
    for kind, folder in _folders(store):
        if time.time() - folder.stat().st_mtime < grace_s or _is_known(kind, folder.name):
            continue
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if dry_run or _remove_unknown(kind, folder, store):
            done.artifacts.append(f"{kind}/{folder.name[:12]}")
            done.size += size
    done.staging = _staging_left(store, grace_s, dry_run=dry_run)
    if done.artifacts or done.staging:
        log.info(
            "%s %d artifacts (%d bytes) and the leftovers of %d jobs",
            "Would remove" if dry_run else "Removed",
            len(done.artifacts),
            done.size,
            len(done.staging),
        )
    return done


def artifacts_needed() -> set[int]:
    """The ids of the artifacts that living versions need; three queries for any tree."""
    versions = {version.pk: version for version in Version.unscoped.select_related("hplm").defer("metrics")}
    busy = set(Job.unscoped.filter(state__in=ACTIVE).values_list("version_id", flat=True))
    links: dict[int, list[tuple[str, int]]] = {}
    for version_id, role, artifact in VersionArtifact.unscoped.values_list("version", "role", "artifact"):
        links.setdefault(version_id, []).append((role, artifact))
    needed: set[int] = set()
    for version in versions.values():
        if version.pk in busy or _is_living(version):
            needed.update(_needs(version, versions, links))
    return needed


def _is_living(version: Version) -> bool:
    deleted = version.hplm is not None and version.hplm.deleted_at is not None
    return version.state != VersionState.RETIRED and not deleted


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
            held.update(compacted_by(node.config))
        node = versions[node.parent_id] if node.parent_id is not None else None


def _is_young(artifact: Artifact, store: ArtifactStore, grace_s: float) -> bool:
    """Made, or made again, a short while ago: a folder is touched whenever a job makes what it holds."""
    if artifact.created_at > timezone.now() - timedelta(seconds=grace_s):
        return True
    folder = store.path(artifact.kind, artifact.digest)
    return folder.is_dir() and time.time() - folder.stat().st_mtime < grace_s


def _remove(artifact: Artifact, store: ArtifactStore) -> bool:
    """Remove the row, its links and its files, unless somebody needs it after all."""
    folder = store.path(artifact.kind, artifact.digest)
    with transaction.atomic():
        collecting_begin()
        if artifact.pk in artifacts_needed():
            return False
        VersionArtifact.unscoped.filter(artifact=artifact).delete()
        Artifact.objects.filter(pk=artifact.pk).delete()
        aside = _set_aside(folder, store)
        if aside is not None:
            transaction.on_commit(lambda: shutil.rmtree(aside, ignore_errors=True))
    return True


def _remove_unknown(kind: str, folder: Path, store: ArtifactStore) -> bool:
    """Remove files that no row speaks of, unless one does by now."""
    with transaction.atomic():
        collecting_begin()
        if _is_known(kind, folder.name):
            return False
        aside = _set_aside(folder, store)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)
    return True


def _set_aside(folder: Path, store: ArtifactStore) -> Path | None:
    """Take files out of the store in one step; None when there are none."""
    aside = store.root / INCOMING / f"collected-{uuid4().hex}"
    aside.parent.mkdir(parents=True, exist_ok=True)
    try:
        return folder.rename(aside)
    except FileNotFoundError:
        return None


def _is_known(kind: str, digest: str) -> bool:
    return Artifact.objects.filter(kind=kind, digest=digest).exists()


def _folders(store: ArtifactStore) -> Iterator[tuple[str, Path]]:
    for kind in KINDS:
        yield from ((kind, folder) for folder in sorted(store.root.glob(f"{kind}/??/*")) if folder.is_dir())


def _staging_left(store: ArtifactStore, grace_s: float, *, dry_run: bool) -> list[str]:
    """Staging folders of jobs that have ended, or are gone."""
    found = dict(staged_jobs(store.root))
    active = Job.unscoped.filter(pk__in=found, state__in=ACTIVE).values_list("pk", flat=True)
    left = []
    for job_id in sorted(found.keys() - set(active), key=str):
        if time.time() - found[job_id].stat().st_mtime < grace_s:
            continue
        if not dry_run:
            shutil.rmtree(found[job_id], ignore_errors=True)
        left.append(str(job_id))
    return left
