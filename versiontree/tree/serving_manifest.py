"""Telling inference workers what to serve: ``<artifact root>/manifest.json``, made from the database.

Workers watch the file, so it is replaced in one step. It names every ready version of every model that is not
deleted, with the chain of PLOTs to look fragments up in, nearest first, and the local lower layers that
compute what the chain lacks. It also has the weights of tenants that have another than 1, what each of the
nearest tables belongs to, and the digests of those versions that are to stay in memory.
"""

import json
import logging
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from tenants.base.scope import platform_scope
from versiontree.tree.models import Alias, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.served import Branch, Link, Served, links_by_role, upwards
from versiontree.tree.single_flight import single_flight

log = logging.getLogger(__name__)

FORMAT: Final = 2
FILE_NAME: Final = "manifest.json"
PAIRED_TASK: Final = "question_answering"


def manifest_publish() -> None:
    """Write the manifest if what it would say has changed; on return it says all that was committed before.

    Publishers take turns, and each reads the database after its turn has come; of those that wait meanwhile
    the next one publishes for all. Not to be called inside a transaction.
    """
    root = Path(settings.HMI_ARTIFACT_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    single_flight(root / ".manifest.lock", lambda: _publish(root / FILE_NAME))


def manifest_publish_on_commit() -> None:
    """Publish after the transaction; a failure is logged and left to the periodic task. Also receives
    ``tenants.base.hooks.serving_changed``."""
    transaction.on_commit(_publish_quietly)


def manifest_content() -> dict[str, Any]:
    """What the database says is served, without the revision; four queries for any number of models."""
    rows = Version.unscoped.filter(kind=VersionKind.HPLM, state=VersionState.READY, hplm__deleted_at=None)
    served = [Served(*row) for row in rows.order_by("pk").values_list(*Served.COLUMNS)]
    # After them, so that nothing is served whose artifacts were not yet there to be read.
    links = links_by_role()
    parents = dict(Version.unscoped.values_list("pk", "parent_id"))
    branches = {
        parent: Branch.of(upwards(parent, parents), links)
        for parent in dict.fromkeys(version.parent_id for version in served)
    }
    tables: dict[str, str] = {}
    for branch in branches.values():
        tables.setdefault(branch.tables[0].digest, branch.tables[0].owner)
    return {
        "format": FORMAT,
        "roots": {branch.root.digest: _root(branch) for branch in branches.values()},
        "lowers": {
            lower.digest: {"files": lower.checksums()}
            for branch in branches.values()
            for lower in branch.lowers
        },
        "hplms": {
            f"{version.tenant}/{version.hplm}:{version.number}": _hplm(
                version, branches[version.parent_id], links["hplm"][version.pk]
            )
            for version in served
        },
        "weights": {version.tenant: version.weight for version in served if version.weight != 1},
        "tables": tables,
        "pinned": sorted({version.digest for version in served} & set(_pinned())),
    }


def _pinned() -> Iterable[str]:
    """The digests of what the aliases of pinned models mean."""
    aliases = Alias.unscoped.filter(hplm__pinned_at__isnull=False, hplm__deleted_at=None)
    return aliases.order_by().values_list("version__digest", flat=True)


def takes_pairs(task: str, config: Mapping[str, Any]) -> bool:
    """Whether the inputs of a version that was made by ``config`` have two texts."""
    return task == PAIRED_TASK or bool(config.get("dataset", {}).get("pairs", False))


def _hplm(version: Served, branch: Branch, own: Link) -> dict[str, Any]:
    return {
        "tenant": version.tenant,
        "hplm": version.hplm,
        "version": version.number,
        "digest": version.digest,
        "task": version.task,
        "pairs": takes_pairs(version.task, {"dataset": {"pairs": version.pairs}}),
        "root": branch.root.digest,
        "lower": branch.lowers[0].digest if branch.lowers else "",
        "plots": [table.digest for table in branch.tables],
        "files": own.checksums(),
        "shares_counts": version.shares_counts,
    }


def _root(branch: Branch) -> dict[str, Any]:
    """A root, whose own local lower layers are the last on the way up."""
    digest = branch.root.digest
    return {
        "name": branch.root.root,
        "path": f"root/{digest[:2]}/{digest}",
        "files": branch.root.checksums(),
        "lower": branch.lowers[-1].digest if branch.lowers else "",
    }


def _publish_quietly() -> None:
    try:
        manifest_publish()
    except Exception:
        log.exception("The manifest could not be published")


def _publish(path: Path) -> None:
    before = _read(path)
    with platform_scope():
        content, revision = manifest_content(), int(before.get("revision", 0))
    if {**content, "revision": revision} != before:
        _replace(path, {**content, "revision": revision + 1})


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
            stream.write(json.dumps(content, ensure_ascii=False))  # many times faster than json.dump
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
