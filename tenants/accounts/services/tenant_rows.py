"""All that belongs to a tenant, table by table, as the models declare it."""

from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any, Final

from django.apps import apps
from django.db import models

from tenants.accounts.models import Tenant
from tenants.audit.models import AuditEvent
from tenants.base.managers import TenantScopedManager
from tenants.usage.models import UsageDay, UsageMonth, UsageSum

KEPT: Final = frozenset({AuditEvent, UsageDay, UsageMonth, UsageSum})
"""What bills and the record need; without names, once the tenant has left."""


def owned_models() -> list[type[models.Model]]:
    """Every model whose rows are a tenant's, each before those that its rows refer to, so that they can be
    deleted in this order; those that are kept left out."""
    owned = {model for model in apps.get_models() if _manager(model) is not None} - KEPT
    referring: dict[type[models.Model], set[type[models.Model]]] = {model: set() for model in owned}
    for model in owned:
        for above in owned & {field.related_model for field in model._meta.fields} - {model}:
            referring[above].add(model)
    return list(TopologicalSorter(referring).static_order())


def owned_rows(model: type[models.Model], tenant: Tenant) -> "models.QuerySet[Any]":
    """The rows of this model that are the tenant's."""
    manager = _manager(model)
    assert manager is not None
    return manager.for_tenant(tenant)


def owned_row_batches(model: type[models.Model], tenant: Tenant, at_once: int) -> Iterator[list[Any]]:
    """The keys of these rows, so many at a time, those that no other row of the model refers to first. Each
    lot is to be gone before the next is asked for."""
    rows = owned_rows(model, tenant)
    leaves = rows
    for field in model._meta.fields:
        if field.related_model is model:
            referred_to = rows.filter(**{f"{field.name}__isnull": False}).order_by().values(field.attname)
            leaves = leaves.exclude(pk__in=referred_to)
    while keys := list(leaves.order_by().values_list("pk", flat=True)[:at_once]):
        yield keys


def _manager(model: type[models.Model]) -> TenantScopedManager[Any] | None:
    return next((each for each in model._meta.managers if isinstance(each, TenantScopedManager)), None)
