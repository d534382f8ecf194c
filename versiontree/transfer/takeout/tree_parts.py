"""The files of a takeout with the tenant's part of the version tree: records, and archives of versions."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder

from tenants.accounts.models import Tenant
from tenants.base.hooks import TakeoutPart as Part
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.transfer.archive.writer import archive_members, zip_stream
from versiontree.transfer.takeout.tenant_parts import ROWS_PER_CHUNK, table_part
from versiontree.tree.models import Alias, AliasMove, FineTuning, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import lineage_of

ARCHIVE: Final = ".zip"


def tree_parts(tenant: Tenant) -> Iterator[Part]:
    """Versions, aliases and jobs of the tenant, and archives of ready versions of its models and domains."""
    yield Part("versions.jsonl", _json_lines(_version(version) for version in _versions(tenant)))
    aliases = Alias.objects.for_tenant(tenant).order_by("pk")
    yield table_part("aliases.csv", aliases, _ALIASES)
    moves = AliasMove.objects.for_tenant(tenant).order_by("pk")
    yield table_part("alias_moves.csv", moves, _MOVES)
    yield table_part("jobs.csv", Job.shown.filter(tenant=tenant).order_by("created_at", "pk"), _JOBS)
    tunings = FineTuning.objects.for_tenant(tenant).order_by("created_at", "pk")
    yield table_part("fine_tunings.csv", tunings, _FINE_TUNINGS)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    ready = Version.objects.for_tenant(tenant).filter(state=VersionState.READY, hplm__deleted_at=None)
    for pk in list(ready.order_by("kind", "pk").values_list("pk", flat=True)):
        yield from _archive(store, pk)


_ALIASES: Final = (
    "hplm__name",
    "name",
    "version__number",
    "moved_at",
    "canary__number",
    "canary_percent",
    "canary_started_at",
)
_MOVES: Final = (
    "hplm__name",
    "name",
    "from_version__number",
    "to_version__number",
    "reason",
    "moved_by__username",
    "moved_at",
)
_JOBS: Final = (
    "id",
    "kind",
    "version__domain__name",
    "version__hplm__name",
    "version__number",
    "state",
    "created_at",
    "started_at",
    "finished_at",
    "error_code",
    "error_message",
)


_FINE_TUNINGS: Final = (
    "id",
    "model",
    "name",
    "version__number",
    "training_file",
    "validation_file",
    "state",
    "created_at",
)


def _versions(tenant: Tenant) -> Iterable[Version]:
    rows = Version.objects.for_tenant(tenant).select_related("root", "domain", "hplm", "parent")
    found: Iterable[Version] = rows.order_by("pk").iterator(ROWS_PER_CHUNK)
    return found


def _version(version: Version) -> dict[str, Any]:
    return {
        "id": version.pk,
        "kind": version.kind,
        "root": version.root.name,
        "name": version.name,
        "task": version.hplm.task if version.hplm else "",
        "number": version.number,
        "parent": version.parent_id,
        "state": version.state,
        "digest": version.digest,
        "policy": version.policy,
        "config": version.config,
        "metrics": version.metrics,
        "created_at": version.created_at,
        "ready_at": version.ready_at,
        "deleted_at": version.hplm.deleted_at if version.hplm else None,
    }


def _json_lines(rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False, cls=DjangoJSONEncoder).encode() + b"\n"


def _archive(store: ArtifactStore, version_id: int) -> Iterator[Part]:
    """The archive of a version. Nothing if it is not ready any more."""
    found = Version.unscoped.filter(pk=version_id, state=VersionState.READY).first()
    if found is None:
        return
    steps = lineage_of(found)
    version = steps[0].version
    if version.kind == VersionKind.HPLM:
        folder = f"models/{version.name}"
    else:
        folder = f"domains/{version.root.name}/{version.name}"
    members = archive_members(store, steps, branch=False)
    yield Part(f"{folder}/v{version.number}{ARCHIVE}", zip_stream(members))
