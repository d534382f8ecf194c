"""The end of a tenant: all its data is deleted.

``tenant_leave`` suspends it and says so; what follows (``versiontree.services.leaving``) is done by a worker,
step by step. Each step may be done again, so a worker that is killed costs nothing but time. Files go before
the rows that speak of them: what is left half-way is then still known.

What bills need stays: the tenant's row with its slug, and one row of usage a day. Of audit events stays what
was done and when.
"""

import shutil
from datetime import date

from django.db import connection, transaction
from django.db.models.functions import Coalesce
from django.utils import timezone

from tenants.errors import ErrorCode, HmiError
from tenants.models import (
    AuditEvent,
    Corpus,
    DatasetSplit,
    File,
    Takeout,
    Tenant,
    UploadCheck,
    UsageDay,
)
from tenants.owned import owned_leaves, owned_models, owned_rows
from tenants.services.audit import Actor, audit_record
from tenants.services.intake import files_release
from tenants.services.taking_out import takeout_path
from tenants.signals import serving_changed, tenant_leaving
from tenants.storage import upload_store
from tenants.usage_selectors import SUMMED, UsageBy, usage_by

AT_ONCE = 500


@transaction.atomic
def tenant_leave(*, tenant: Tenant, typed: str, actor: Actor) -> bool:
    """Begin to delete all data of a tenant, which is suspended from now on; true when this call did it.

    ``typed`` must be its slug: ``invalid_field``. Raises ``has_dependents`` while what is others' stands on
    what is the tenant's.
    """
    if typed.strip() != tenant.slug:
        raise HmiError(ErrorCode.INVALID_FIELD, f"Type {tenant.slug} to delete it.", param="typed")
    now = timezone.now()
    begun = Tenant.objects.filter(pk=tenant.pk, leaving_since=None).update(
        leaving_since=now,
        suspended_at=Coalesce("suspended_at", now),
        shares_fragment_counts=False,  # so that what was counted goes, too
        stopped_sharing_at=now,
    )
    if not begun:
        return False
    tenant.refresh_from_db()
    audit_record(verb="tenant.leave", subject=tenant.slug, tenant=None, actor=actor)
    tenant_leaving.send(Tenant, tenant=tenant)
    serving_changed.send(Tenant)
    return True


def tenants_leaving() -> list[Tenant]:
    """Those of whose data something may be left."""
    return list(Tenant.objects.filter(leaving_since__isnull=False, left_at=None))


def tenant_files_delete(*, tenant: Tenant) -> None:
    """Delete the files of its corpora, datasets and takeouts, and those kept as they were sent, but what
    others have uploaded, too."""
    for rows in (model.objects.for_tenant(tenant) for model in (Corpus, DatasetSplit, File)):
        files_release(rows.order_by().values_list("sha256", flat=True), but_of=tenant)
    for key in UploadCheck.objects.for_tenant(tenant).values_list("pk", flat=True):
        shutil.rmtree(upload_store().checked(key), ignore_errors=True)
    for takeout in Takeout.objects.for_tenant(tenant):
        takeout_path(takeout).unlink(missing_ok=True)


def tenant_names_blank(*, tenant: Tenant) -> None:
    """Take the names out of what is kept."""
    with transaction.atomic():
        with connection.cursor() as cursor:  # what another process counts meanwhile comes behind this
            cursor.execute(f"LOCK TABLE {UsageDay._meta.db_table} IN SHARE ROW EXCLUSIVE MODE")
        days = list(usage_by(tenant, UsageBy.DAY, date.min))
        UsageDay.objects.for_tenant(tenant).delete()
        kept = (
            UsageDay(tenant=tenant, day=row["name"], **{name: row[name] for name in SUMMED}) for row in days
        )
        UsageDay.unscoped.bulk_create(kept, batch_size=AT_ONCE)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('hmi.leaving_tenant', %s, true)", [str(tenant.pk)])
        AuditEvent.objects.for_tenant(tenant).update(
            subject="", detail={}, actor=None, api_key=None, address=None, request_id=""
        )


def tenant_rows_delete(*, tenant: Tenant) -> None:
    """Delete its rows in all tables but those that are kept."""
    for model in owned_models():
        for keys in owned_leaves(model, tenant, AT_ONCE):
            with transaction.atomic():
                rows = model._base_manager.filter(pk__in=keys)
                # Held first: what refers to them is then either there to be deleted, too, or not written.
                list(rows.order_by("pk").select_for_update().values_list("pk"))
                rows.delete()


@transaction.atomic
def tenant_left(*, tenant: Tenant) -> bool:
    """Note that nothing is left; false when something is, which came in meanwhile."""
    leaving = Tenant.objects.select_for_update().filter(pk=tenant.pk, left_at=None)
    if not leaving.exists() or any(owned_rows(model, tenant).exists() for model in owned_models()):
        return False
    leaving.update(left_at=timezone.now(), name=tenant.slug)
    audit_record(verb="tenant.left", subject=tenant.slug, tenant=None, actor=None)
    return True
