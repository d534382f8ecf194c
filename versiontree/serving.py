"""Telling inference workers what to serve: ``<artifact root>/manifest.json``, made from the database.

Workers watch the file, so it is replaced in one step. It names every ready version of every hPLM that is not
deleted, with the chain of PLOTs to look fragments up in, nearest first, and the local lower layers that
compute what the chain lacks. It also has the weights of tenants that have another than 1, and what each of
the nearest tables belongs to.
"""

import fcntl
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from versiontree.chains import compacted_by, without_compacted
from versiontree.models import Artifact, Version, VersionArtifact
from versiontree.models.artifact import Role
from versiontree.models.version import VersionKind, VersionState

log = logging.getLogger(__name__)

FORMAT: Final = 2
FILE_NAME: Final = "manifest.json"
PAIRED_TASK: Final = "question_answering"


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


def manifest_publish_on_commit(**_: object) -> None:
    """Publish after the transaction; a failure is logged and left to the periodic task. Also receives
    ``tenants.signals.serving_changed``."""
    transaction.on_commit(_publish_quietly)


def manifest_content() -> dict[str, Any]:
    """What the database says is served, without the revision; three queries for any number of hPLMs."""
    served = list(
        Version.unscoped.filter(kind=VersionKind.HPLM, state=VersionState.READY, hplm__deleted_at=None)
        .select_related("hplm__tenant")
        .order_by("pk")
    )
    # After them, so that nothing is served whose artifacts were not yet there to be read.
    by_role = _links_by_role()
    lowers, plots, hplms = by_role["lower"], by_role["plot"], by_role["hplm"]
    parents = dict(Version.unscoped.values_list("pk", "parent_id"))
    compacts = {pk: compacted_by(link.version.config) for pk, link in plots.items()}
    content: dict[str, dict[str, Any]] = {"roots": {}, "lowers": {}, "hplms": {}, "weights": {}, "tables": {}}
    for version in served:
        hplm = version.hplm
        if hplm is None:
            continue
        chain = list(_upwards(version.pk, parents))
        root = next(by_role["root"][pk] for pk in chain if pk in by_role["root"])
        near = [lowers[pk].artifact for pk in chain if pk in lowers]
        tables = [plots[pk] for pk in without_compacted(chain, compacts) if pk in plots]
        content["roots"][root.version.digest] = _root(root, near)
        content["tables"].setdefault(tables[0].artifact.digest, _owner_of(tables[0].version))
        if hplm.tenant.weight != 1:
            content["weights"][hplm.tenant.slug] = hplm.tenant.weight
        content["lowers"] |= {lower.digest: {"files": _checksums(lower)} for lower in near}
        content["hplms"][f"{hplm.tenant.slug}/{hplm.name}:{version.number}"] = {
            "tenant": hplm.tenant.slug,
            "hplm": hplm.name,
            "version": version.number,
            "digest": version.digest,
            "task": hplm.task,
            "pairs": takes_pairs(hplm.task, version.config),
            "root": root.version.digest,
            "lower": near[0].digest if near else "",
            "plots": [table.artifact.digest for table in tables],
            "files": _checksums(hplms[version.pk].artifact),
            "shares_counts": hplm.tenant.shares_fragment_counts,
        }
    return {"format": FORMAT, **content}


def takes_pairs(task: str, config: Mapping[str, Any]) -> bool:
    """Whether the inputs of a version that was made by ``config`` have two texts."""
    return task == PAIRED_TASK or bool(config.get("dataset", {}).get("pairs", False))


def _links_by_role() -> dict[str, dict[int, VersionArtifact]]:
    """By role, then by version: the artifacts of all versions that can be used."""
    found: dict[str, dict[int, VersionArtifact]] = {role: {} for role in Role.values}
    usable = VersionArtifact.unscoped.filter(version__state__in=[VersionState.READY, VersionState.RETIRED])
    for link in usable.select_related("artifact", "version__root", "version__domain__tenant"):
        found[link.role][link.version_id] = link
    return found


def _owner_of(version: Version) -> str:
    """What a table belongs to, in words: a domain, with its tenant if it has one, or else the root."""
    domain = version.domain
    if domain is None:
        return version.root.name
    return f"{domain.tenant.slug}/{domain.name}" if domain.tenant else domain.name


def _root(link: VersionArtifact, near: Sequence[Artifact]) -> dict[str, Any]:
    """A root, whose own local lower layers are the last on the way up."""
    digest = link.version.digest
    return {
        "name": link.version.root.name if link.version.root else "",
        "path": f"root/{digest[:2]}/{digest}",
        "files": _checksums(link.artifact),
        "lower": near[-1].digest if near else "",
    }


def _checksums(artifact: Artifact) -> dict[str, str]:
    return {name: entry["sha256"] for name, entry in artifact.files.items()}


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
