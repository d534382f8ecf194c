"""Lists of what stands on one root or domain, which their pages lead to."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from versiontree.tree.models import Domain, Hplm, Root
from versiontree.tree.selectors.dependents import domains_on, hplms_on

PARAMETER = "on"


def asking_for(owner: Root | Domain) -> str:
    """What the address of a list says for what stands on this."""
    return f"{PARAMETER}={owner._meta.model_name}-{owner.pk}"


class StandingOn(admin.SimpleListFilter):
    """Only what grows directly from one root or domain; shown where it is asked for."""

    title = "what it stands on"
    parameter_name = PARAMETER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        owner = self._owner()
        return [(str(self.value()), str(owner))] if owner else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        owner = self._owner()
        if owner is None:
            return queryset
        standing = hplms_on(owner) if queryset.model is Hplm else domains_on(owner)
        return queryset.filter(pk__in=standing.values("pk"))

    def _owner(self) -> Root | Domain | None:
        kind, _, key = (self.value() or "").partition("-")
        if not key.isdecimal():
            return None
        if kind == "root":
            return Root.objects.filter(pk=key).first()
        domains = Domain.unscoped.select_related("root", "tenant")
        return domains.filter(pk=key).first() if kind == "domain" else None
