"""Links to the dependents of a root or domain, and the list filter that they use."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tenants.base.admin.base import admin_link, changelist_link
from versiontree.tree.models import Domain, Hplm, Root
from versiontree.tree.selectors.lineage import dependent_domains, dependent_hplms, dependents_of

PARAMETER = "on"


def dependents_query(owner: Root | Domain) -> str:
    """What the address of a list says for what stands on this."""
    return f"{PARAMETER}={owner._meta.model_name}-{owner.pk}"


class DependentsFilter(admin.SimpleListFilter):
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
        standing = dependent_hplms(owner) if queryset.model is Hplm else dependent_domains(owner)
        return queryset.filter(pk__in=standing.values("pk"))

    def _owner(self) -> Root | Domain | None:
        kind, _, key = (self.value() or "").partition("-")
        if not key.isdecimal():
            return None
        if kind == "root":
            return Root.objects.filter(pk=key).first()
        domains = Domain.unscoped.select_related("root", "tenant")
        return domains.filter(pk=key).first() if kind == "domain" else None


MAX_NAMED: Final = 9
"""So many domains and so many models are named, of those that stand on something: with how many there are,
that is all that a question before an action shows."""


def dependent_links(owner: Root | Domain) -> list[str]:
    """What grows directly from it: the first domains and models, each linked
    to its page, and links to the full lists if there are more."""
    standing = dependents_of(owner, shown=MAX_NAMED)
    domains, hplms, query = standing.domain_count, standing.hplm_count, dependents_query(owner)
    return [
        *(admin_link(domain, f"the domain {_named(domain)}") for domain in standing.domains),
        *([changelist_link(Domain, query, f"all {domains:,} domains")] if domains > MAX_NAMED else []),
        *(admin_link(hplm, f"the model {hplm}") for hplm in standing.hplms),
        *(
            [changelist_link(Hplm, query, f"all {hplms:,} models, of {standing.tenant_count:,} tenants")]
            if hplms > MAX_NAMED
            else []
        ),
    ]


def _named(domain: Domain) -> str:
    return f"{domain.tenant.slug}/{domain.name}" if domain.tenant else domain.name
