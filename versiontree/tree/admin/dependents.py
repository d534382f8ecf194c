"""Links to the dependents of a root or domain, and the list filter that they use."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tenants.base.admin.base import admin_link, changelist_link
from tenants.base.row_ids import row_id
from versiontree.tree.models import Domain, Hplm, Root
from versiontree.tree.selectors.lineage import dependent_domains, dependent_hplms, dependents_of

PARAMETER = "on"


def dependents_query(owner: Root | Domain) -> str:
    """The query string of a list of the dependents of this owner."""
    return f"{PARAMETER}={owner._meta.model_name}-{owner.pk}"


class DependentsFilter(admin.SimpleListFilter):
    """Filter for direct dependents of a root or domain; shown only if it is in the query string."""

    title = "parent"
    parameter_name = PARAMETER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        owner = self._owner()
        return [(str(self.value()), str(owner))] if owner else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        owner = self._owner()
        if owner is None:
            return queryset
        dependents = dependent_hplms(owner) if queryset.model is Hplm else dependent_domains(owner)
        return queryset.filter(pk__in=dependents.values("pk"))

    def _owner(self) -> Root | Domain | None:
        kind, _, number = (self.value() or "").partition("-")
        key = row_id(number)
        if kind == "root":
            return Root.objects.filter(pk=key).first()
        domains = Domain.unscoped.select_related("root", "tenant")
        return domains.filter(pk=key).first() if kind == "domain" else None


MAX_NAMED: Final = 9
"""How many domains and how many models are listed by name."""


def dependent_links(owner: Root | Domain) -> list[str]:
    """Links to the first direct dependents, and to the full lists if there are more."""
    dependents = dependents_of(owner, shown=MAX_NAMED)
    domains, hplms, query = dependents.domain_count, dependents.hplm_count, dependents_query(owner)
    return [
        *(admin_link(domain, f"the domain {_named(domain)}") for domain in dependents.domains),
        *([changelist_link(Domain, query, f"all {domains:,} domains")] if domains > MAX_NAMED else []),
        *(admin_link(hplm, f"the model {hplm}") for hplm in dependents.hplms),
        *(
            [changelist_link(Hplm, query, f"all {hplms:,} models, of {dependents.tenant_count:,} tenants")]
            if hplms > MAX_NAMED
            else []
        ),
    ]


def _named(domain: Domain) -> str:
    return f"{domain.tenant.slug}/{domain.name}" if domain.tenant else domain.name
