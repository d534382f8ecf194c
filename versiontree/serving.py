"""Telling inference workers what to serve: ``<artifact root>/manifest.json``, made from the database.

Workers watch the file, so it is replaced in one step. It names every ready version of every hPLM that is not
deleted, with the chain of PLOTs to look fragments up in, nearest first.
"""

import fcntl
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from versiontree.models import Version, VersionArtifact
from versiontree.models.version import VersionKind, VersionState

log = logging.getLogger(__name__)

FORMAT: Final = 1
FILE_NAME: Final = "manifest.json"


def manifest_publish() -> int:
    """Write the manifest if what it would say has changed; returns its revision.

    Publishers take turns, and each reads the database after its turn has come, so the last one to write has
    seen every commit before it. Not to be called inside a transaction.
    """
    root = Path(settings.HMI_ARTIFACT_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    with _turn(root / ".manifest.lock"):
        before = _read(root / FILE_NAME)
        content = manifest_content()
        revision = int(before.get("revision", 0))
        if {**content, "revision": revision} == before:
            return revision
        _replace(root / FILE_NAME, {**content, "revision": revision + 1})
        return revision + 1


def manifest_publish_on_commit() -> None:
    """Publish after the transaction; a failure is logged and left to the periodic task."""
    transaction.on_commit(_publish_quietly)


def manifest_content() -> dict[str, Any]:
    """What the database says is served, without the revision; five queries for any number of hPLMs."""
    links = VersionArtifact.unscoped.select_related("artifact").filter(
        version__state__in=[VersionState.READY, VersionState.RETIRED]
    )
    plots = {link.version_id: link.artifact.digest for link in links.filter(role="plot")}
    parents = dict(Version.unscoped.values_list("pk", "parent_id"))
    root_versions = {
        version.pk: version
        for version in Version.unscoped.filter(kind=VersionKind.ROOT)
        .select_related("root")
        .exclude(digest="")
    }
    files = {link.version_id: link.artifact.files for link in links.filter(role="hplm")}
    served = (
        Version.unscoped.filter(kind=VersionKind.HPLM, state=VersionState.READY, hplm__deleted_at=None)
        .select_related("hplm__tenant")
        .order_by("pk")
    )
    roots: dict[str, dict[str, str]] = {}
    hplms: dict[str, dict[str, Any]] = {}
    for version in served:
        hplm = version.hplm
        if hplm is None:
            continue
        chain = list(_upwards(version.pk, parents))
        root = next(root_versions[pk] for pk in chain if pk in root_versions)
        roots[root.digest] = {"name": root.root.name, "path": f"root/{root.digest[:2]}/{root.digest}"}
        hplms[f"{hplm.tenant.slug}/{hplm.name}:{version.number}"] = {
            "tenant": hplm.tenant.slug,
            "hplm": hplm.name,
            "version": version.number,
            "digest": version.digest,
            "task": hplm.task,
            "root": root.digest,
            "plots": [plots[pk] for pk in chain if pk in plots],
            "files": {name: entry["sha256"] for name, entry in files[version.pk].items()},
        }
    return {"format": FORMAT, "roots": roots, "hplms": hplms}


def _publish_quietly() -> None:
    try:
        manifest_publish()
    except Exception:
        log.exception("The manifest could not be published")


def _upwards(pk: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    while pk is not None:
        yield pk
        pk = parents[pk]


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _replace(path: Path, content: dict[str, Any]) -> None:
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with new.open("w", encoding="utf-8") as stream:
            json.dump(content, stream, ensure_ascii=False)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
