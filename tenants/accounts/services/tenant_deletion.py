"""The end of a tenant: all its data is deleted.

``tenant_delete`` suspends it and calls ``hooks.tenant_deletion``; what follows is done by a worker, step by
step. Each step may be done again, so a worker that is killed costs nothing but time. Files go before the
rows that speak of them: what is left half-way is then still known.

What bills need stays: the tenant's row with its slug, and one row of usage a day. Of audit events stays what
was done and when.
"""

from datetime import date

from django.db import connection, transaction
from django.db.models.functions import Coalesce
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenant_rows import owned_models, owned_row_batches, owned_rows
from tenants.audit.models import AuditEvent
from tenants.audit.services import Actor, audit_record
from tenants.base import hooks
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import UsageDay
from tenants.usage.selectors import SUMMED, UsageBy, usage_by

AT_ONCE = 500


@transaction.atomic
def tenant_delete(*, tenant: Tenant, typed: str, actor: Actor) -> bool:
    """Begin to delete all data of a tenant, which is suspended from now on; true when this call did it.

    ``typed`` must be its slug: ``invalid_field``. Raises ``has_dependents`` while what is others' stands on
    what is the tenant's.
    """
    if typed.strip() != tenant.slug:
        raise HmiError(ErrorCode.INVALID_FIELD, f"Type {tenant.slug} to delete it.", param="typed")
    now = timezone.now()
    begun = Tenant.objects.filter(pk=tenant.pk, deletion_requested_at=None).update(
        deletion_requested_at=now,
        suspended_at=Coalesce("suspended_at", now),
        shares_fragment_counts=False,  # so that what was counted goes, too
        stopped_sharing_at=now,
    )
    if not begun:
        return False
    tenant.refresh_from_db()
    audit_record(verb="tenant.delete_requested", subject=tenant.slug, tenant=None, actor=actor)
    hooks.tenant_deletion(tenant)
    hooks.serving_changed()
    return True


def tenants_being_deleted() -> list[Tenant]:
    """Those of whose data something may be left."""
    return list(Tenant.objects.filter(deletion_requested_at__isnull=False, deletion_finished_at=None))


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
            cursor.execute("SELECT set_config('hmi.deleted_tenant', %s, true)", [str(tenant.pk)])
        AuditEvent.objects.for_tenant(tenant).update(
            subject="", detail={}, actor=None, api_key=None, address=None, request_id=""
        )


def tenant_rows_delete(*, tenant: Tenant) -> None:
    """Delete its rows in all tables but those that are kept."""
    for model in owned_models():
        for keys in owned_row_batches(model, tenant, AT_ONCE):
            with transaction.atomic():
                rows = model._base_manager.filter(pk__in=keys)
                # Held first: what refers to them is then either there to be deleted, too, or not written.
                list(rows.order_by("pk").select_for_update().values_list("pk"))
                rows.delete()


@transaction.atomic
def tenant_deletion_finish(*, tenant: Tenant) -> bool:
    """Note that nothing is left; false when something is, which came in meanwhile."""
    leaving = Tenant.objects.select_for_update().filter(pk=tenant.pk, deletion_finished_at=None)
    if not leaving.exists() or any(owned_rows(model, tenant).exists() for model in owned_models()):
        return False
    leaving.update(deletion_finished_at=timezone.now(), name=tenant.slug)
    audit_record(verb="tenant.deleted", subject=tenant.slug, tenant=None, actor=None)
    return True
