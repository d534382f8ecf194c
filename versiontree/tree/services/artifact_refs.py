"""Attaching artifacts and collecting them keep out of each other's way: many attach at once, one collects.

Whoever attaches sees an artifact that is there and stays; whoever collects sees every link there is.
"""

from collections.abc import Iterable
from typing import Final

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import not_found
from tenants.datasets.models import File
from versiontree.tree.models import FineTuning, FineTuningState, Hplm
from versiontree.tree.serving_manifest import manifest_publish_on_commit

_LOCK: Final = 0x484D49
"""An advisory lock of PostgreSQL, let go of when the transaction ends."""


def artifact_refs_lock() -> None:
    """Keep collectors out until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [_LOCK])


def garbage_collection_lock() -> None:
    """Wait until nobody is attaching, and keep others out until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def fine_tunings_of_file(file: File) -> Iterable[FineTuning]:
    """The fine-tunings that wait to read the file."""
    named = Q(training_file=file.pk) | Q(validation_file=file.pk)
    return FineTuning.unscoped.filter(named, tenant=file.tenant_id, state=FineTuningState.VALIDATING)


@transaction.atomic
def hplm_pin(*, hplm: Hplm, actor: Actor) -> bool:
    """Keep the versions that its aliases mean in the memory of inference workers; False when they are kept
    already. Raises ``not_found`` (deleted)."""
    _require_living(hplm)
    rows = Hplm.unscoped.filter(pk=hplm.pk, pinned_at=None)
    return _done(hplm, "model.pin", actor) if rows.update(pinned_at=timezone.now()) else False


@transaction.atomic
def hplm_unpin(*, hplm: Hplm, actor: Actor) -> bool:
    """Let it go the way of the others; False when it was not pinned. Raises ``not_found`` (deleted)."""
    _require_living(hplm)
    rows = Hplm.unscoped.filter(pk=hplm.pk, pinned_at__isnull=False)
    return _done(hplm, "model.unpin", actor) if rows.update(pinned_at=None) else False


def _require_living(hplm: Hplm) -> None:
    rows = Hplm.unscoped.select_for_update(no_key=True).filter(pk=hplm.pk, deleted_at=None)
    if not rows.exists():
        raise not_found("model", param="model")


def _done(hplm: Hplm, verb: str, actor: Actor) -> bool:
    audit_record(verb=verb, subject=str(hplm), tenant=hplm.tenant, actor=actor)
    manifest_publish_on_commit()
    return True
