"""Deletion of all data of a tenant.

``tenant_delete`` suspends the tenant and calls ``hooks.tenant_deletion``. A worker then runs the other steps.
Each step can be repeated, so a worker that is killed loses nothing. Files are deleted before the rows that
name them.

What billing needs is retained: the tenant's row with its slug, and one row of usage per day. Audit events
retain what was done and when.
"""

from collections.abc import Iterator
from datetime import date
from graphlib import TopologicalSorter
from typing import Any, Final

from django.apps import apps
from django.db import connection, models, transaction
from django.db.models.functions import Coalesce
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.models import AuditEvent
from tenants.audit.services import Actor, audit_record
from tenants.base import hooks
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.managers import TenantScopedManager
from tenants.base.scope import platform_scope
from tenants.usage.models import UsageDay, UsageSum
from tenants.usage.selectors import SUMMED, UsageBy, usage_by
from tenants.usage.services.usage import usage_sums_rebuild

RETAINED_MODELS: Final = frozenset({AuditEvent, UsageDay, UsageSum})
"""Their rows are retained for billing and the audit log, without names."""
BATCH_SIZE: Final = 500


@transaction.atomic
def tenant_delete(*, tenant: Tenant, typed: str, actor: Actor) -> bool:
    """Suspend a tenant and start the deletion of all its data. Returns whether this call started it.

    ``typed`` must be the tenant's slug, else ``invalid_field``. Raises ``has_dependents`` while rows of other
    tenants depend on this tenant's.
    """
    if typed.strip() != tenant.slug:
        raise HmiError(ErrorCode.INVALID_FIELD, f"Type {tenant.slug} to delete it.", param="typed")
    now = timezone.now()
    started = Tenant.objects.filter(pk=tenant.pk, deletion_requested_at=None).update(
        deletion_requested_at=now,
        suspended_at=Coalesce("suspended_at", now),
    )
    if not started:
        return False
    tenant.refresh_from_db()
    audit_record(verb="tenant.delete_requested", subject=tenant.slug, tenant=None, actor=actor)
    with platform_scope():  # rows of other tenants may depend on this one's
        hooks.tenant_deletion(tenant)
    hooks.serving_changed()
    return True


def tenant_anonymize(*, tenant: Tenant) -> None:
    """Remove the names from the rows that are retained."""
    with transaction.atomic():
        with connection.cursor() as cursor:  # the upserts of ``UsageBuffer`` wait for this, and then see it
            cursor.execute(f"LOCK TABLE {UsageDay._meta.db_table} IN SHARE ROW EXCLUSIVE MODE")
        days = list(usage_by(tenant, UsageBy.DAY, date.min))
        UsageDay.objects.for_tenant(tenant).delete()
        rows = (
            UsageDay(tenant=tenant, day=row["name"], **{name: row[name] for name in SUMMED}) for row in days
        )
        UsageDay.unscoped.bulk_create(rows, batch_size=BATCH_SIZE)
        usage_sums_rebuild(tenant=tenant)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('hmi.deleted_tenant', %s, true)", [str(tenant.pk)])
        AuditEvent.objects.for_tenant(tenant).update(
            subject="", detail={}, actor=None, api_key=None, address=None, request_id=""
        )


def tenant_rows_delete(*, tenant: Tenant) -> None:
    """Delete the tenant's rows of all models except the retained ones."""
    for model in owned_models():
        for keys in _row_batches(model, tenant):
            with transaction.atomic():
                rows = model._base_manager.filter(pk__in=keys)
                # Locked first, so that no other transaction adds rows that refer to them.
                list(rows.order_by("pk").select_for_update().values_list("pk"))
                rows.delete()


@transaction.atomic
def tenant_deletion_finish(*, tenant: Tenant) -> bool:
    """Record that all data is deleted. False if there are rows left, which were added meanwhile."""
    pending = Tenant.objects.select_for_update().filter(pk=tenant.pk, deletion_finished_at=None)
    if not pending.exists() or any(owned_rows(model, tenant).exists() for model in owned_models()):
        return False
    pending.update(deletion_finished_at=timezone.now(), name=tenant.slug)
    audit_record(verb="tenant.deleted", subject=tenant.slug, tenant=None, actor=None)
    return True


def owned_models() -> list[type[models.Model]]:
    """All models whose rows belong to tenants, except the retained ones, in an order for deletion.

    Each stands before those that it refers to.
    """
    models_with_tables = (model for model in apps.get_models() if not model._meta.proxy)
    owned = {model for model in models_with_tables if _manager(model) is not None} - RETAINED_MODELS
    referrers: dict[type[models.Model], set[type[models.Model]]] = {model: set() for model in owned}
    for model in owned:
        for target in owned & {field.related_model for field in model._meta.fields} - {model}:
            referrers[target].add(model)
    return list(TopologicalSorter(referrers).static_order())


def owned_rows(model: type[models.Model], tenant: Tenant) -> "models.QuerySet[Any]":
    """The tenant's rows of a model in ``owned_models``."""
    manager = _manager(model)
    assert manager is not None
    return manager.for_tenant(tenant)


def _row_batches(model: type[models.Model], tenant: Tenant) -> Iterator[list[Any]]:
    """Yield the keys of the tenant's rows in batches, first those that no other row of the model refers to.

    The caller must delete each batch before it takes the next.
    """
    rows = owned_rows(model, tenant)
    leaves = rows
    for field in model._meta.fields:
        if field.related_model is model:
            referred_to = rows.filter(**{f"{field.name}__isnull": False}).order_by().values(field.attname)
            leaves = leaves.exclude(pk__in=referred_to)
    while keys := list(leaves.order_by().values_list("pk", flat=True)[:BATCH_SIZE]):
        yield keys


def _manager(model: type[models.Model]) -> TenantScopedManager[Any] | None:
    return next(
        (manager for manager in model._meta.managers if isinstance(manager, TenantScopedManager)), None
    )
