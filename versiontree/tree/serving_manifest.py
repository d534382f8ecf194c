"""Publishing ``<artifact root>/manifest.json``, which tells inference workers what to serve.

The manifest is made from the database and replaced atomically, because workers watch it. It lists:

- every ready version of every model that is not deleted, with its chain of PLOTs (nearest first) and the
  local lower layers that compute what the chain lacks;
- apart from those the generative models, with their decoder roots;
- every root that can be called by its name, as a model of no tenant, without files of its own and with the
  digest of its root;
- the weights of tenants whose weight is not 1;
- the owner of the nearest table of each chain;
- the digests of the versions pinned in memory.
"""

import json
import logging
import os
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from filelock import FileLock

from tenants.base.scope import platform_scope
from versiontree.tree.models import Alias, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.callable_roots import base_task, callable_root_versions
from versiontree.tree.selectors.served_versions import (
    ArtifactLink,
    ServedBranch,
    ServedVersion,
    ancestor_ids,
    links_by_role,
    nearest_root,
)

log = logging.getLogger(__name__)

FORMAT: Final = 2
FILE_NAME: Final = "manifest.json"
PAIRED_TASK: Final = "question_answering"
LOCK_POLL_S: Final = 0.01
RUNS: Final = struct.Struct("<QQ")


def manifest_publish() -> None:
    """Write the manifest if its content has changed. On return it includes all that was committed before.

    Concurrent calls share one write (``single_flight``). Do not call it inside a transaction.
    """
    root = Path(settings.HMI_ARTIFACT_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    single_flight(root / ".manifest", lambda: _publish(root / FILE_NAME))


def manifest_publish_on_commit() -> None:
    """Publish after the transaction. A failure is logged and left to the periodic task.

    Receiver of ``tenants.base.hooks.serving_changed``.
    """
    transaction.on_commit(_publish_quietly)


def manifest_content() -> dict[str, Any]:
    """The manifest without its revision. Five queries for any number of models."""
    rows = Version.unscoped.filter(kind=VersionKind.HPLM, state=VersionState.READY, hplm__deleted_at=None)
    served = [ServedVersion(*row) for row in rows.order_by("pk").values_list(*ServedVersion.COLUMNS)]
    bases = [_base(version) for version in callable_root_versions()]
    # Read after the versions, so that every version served has its artifacts here.
    links = links_by_role()
    parents = dict(Version.unscoped.values_list("pk", "parent_id"))
    encoders = [version for version in [*served, *bases] if not version.is_generative]
    branches = {
        parent: ServedBranch.of(ancestor_ids(parent, parents), links)
        for parent in dict.fromkeys(version.parent_id for version in encoders)
    }
    decoders = {
        version: nearest_root(ancestor_ids(version.parent_id, parents), links)
        for version in [*served, *bases]
        if version.is_generative
    }
    tables: dict[str, str] = {}
    for branch in branches.values():
        for nearest in branch.tables[:1]:
            tables.setdefault(nearest.digest, nearest.owner)

    def entry(version: ServedVersion) -> dict[str, Any]:
        files = links["hplm"][version.pk].checksums() if version.tenant else {}
        if version.is_generative:
            return _generative(version, decoders[version], files)
        return _hplm(version, branches[version.parent_id], files)

    return {
        "format": FORMAT,
        "roots": {branch.root.digest: _root(branch) for branch in branches.values()},
        "lowers": {
            lower.digest: {"files": lower.checksums()}
            for branch in branches.values()
            for lower in branch.lowers
        },
        "hplms": {version.name: entry(version) for version in served if not version.is_generative},
        "decoders": {root.digest: _decoder(root) for root in decoders.values()},
        "generative": {version.name: entry(version) for version in served if version.is_generative},
        "bases": {version.name: entry(version) for version in bases},
        "weights": {version.tenant: version.weight for version in served if version.weight != 1},
        "tables": tables,
        "pinned": sorted({version.digest for version in served} & set(_pinned())),
    }


def _pinned() -> Iterable[str]:
    """The digests of the versions that answer requests to aliases of pinned models."""
    aliases = Alias.unscoped.filter(hplm__pinned_at__isnull=False, hplm__deleted_at=None)
    digests = aliases.order_by().values_list("version__digest", "canary__digest")
    return (digest for both in digests for digest in both if digest is not None)


def takes_pairs(task: str, config: Mapping[str, Any]) -> bool:
    """Whether an input of a version with this config consists of two texts."""
    return task == PAIRED_TASK or bool(config.get("dataset", {}).get("pairs", False))


def _base(version: Version) -> ServedVersion:
    """A root as a model of no tenant, whose chain of versions begins with the root itself."""
    return ServedVersion(
        pk=version.pk,
        parent_id=version.pk,
        number=version.number,
        digest=version.digest,
        hplm=version.root.name,
        task=base_task(version),
        pairs=None,
        tenant="",
        weight=1.0,
    )


def _hplm(version: ServedVersion, branch: ServedBranch, files: dict[str, str]) -> dict[str, Any]:
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
        "files": files,
    }


def _root(branch: ServedBranch) -> dict[str, Any]:
    """A root. Its own local lower layers are the last of the chain."""
    return {**_decoder(branch.root), "lower": branch.lowers[-1].digest if branch.lowers else ""}


def _decoder(root: ArtifactLink) -> dict[str, Any]:
    digest = root.digest
    return {"name": root.root, "path": f"root/{digest[:2]}/{digest}", "files": root.checksums()}


def _generative(version: ServedVersion, root: ArtifactLink, files: dict[str, str]) -> dict[str, Any]:
    return {
        "tenant": version.tenant,
        "hplm": version.hplm,
        "version": version.number,
        "digest": version.digest,
        "task": version.task,
        "root": root.digest,
        "files": files,
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


def single_flight(name: Path, work: Callable[[], None]) -> None:
    """Return once a run of ``work`` that began after this call has ended, here or in another process.

    Callers take turns under the lock ``<name>.lock``. If such a run ended while a caller waited, the caller
    returns at once: of many that wait during one run, the next runs for all. A failed run raises, and the
    next caller runs again. The file ``<name>.runs`` holds the number of the last run and of the last that
    succeeded. The folder must exist.
    """
    runs = os.open(f"{name}.runs", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        last_before, _ = _read_runs(runs)
        with FileLock(f"{name}.lock", mode=0o600, thread_local=False, poll_interval=LOCK_POLL_S):
            last, succeeded = _read_runs(runs)
            if succeeded > last_before:
                return
            os.pwrite(runs, RUNS.pack(last + 1, succeeded), 0)
            work()
            os.pwrite(runs, RUNS.pack(last + 1, last + 1), 0)
    finally:
        os.close(runs)


def _read_runs(runs: int) -> tuple[int, int]:
    content = os.pread(runs, RUNS.size, 0)
    if len(content) < RUNS.size:
        return 0, 0
    last, succeeded = RUNS.unpack(content)
    return last, succeeded
