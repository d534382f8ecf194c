"""A manager that fails closed: a query without a tenant raises.

A model owned by a tenant declares two managers, in this order::

    unscoped = models.Manager()      # for the admin and system code
    objects = TenantScopedManager()  # for everything else

The first is Django's default manager, so the admin, related managers and cascades work as usual.
"""

from typing import NoReturn, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class UnscopedQuery(RuntimeError):
    """A tenant-owned model was queried without a tenant: always a bug in our code."""


class TenantScopedManager(models.Manager[Row]):
    """A manager whose only method is ``for_tenant``.

    ``tenant_path`` is the look-up from the row to its tenant. A row without a tenant is the platform's; with
    ``shares_platform_rows`` all tenants may read it. PostgreSQL enforces both too
    (``tenants.base.row_security``).
    """

    def __init__(self, tenant_path: str = "tenant", *, shares_platform_rows: bool = False) -> None:
        super().__init__()
        self.tenant_path = tenant_path
        self.shares_platform_rows = shares_platform_rows

    def for_tenant(self, tenant: models.Model) -> models.QuerySet[Row]:
        """Return the rows of this tenant. An unsaved or absent tenant raises ``UnscopedQuery``."""
        key = getattr(tenant, "pk", None)
        if key is None:
            raise UnscopedQuery(f"{self.model.__name__}: for_tenant() needs a saved tenant")
        return super().get_queryset().filter(**{f"{self.tenant_path}_id": key})

    def get_queryset(self) -> NoReturn:
        raise UnscopedQuery(f"{self.model.__name__}: use objects.for_tenant(tenant)")
