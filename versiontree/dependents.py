"""Who stands on a domain: what would have to look for other ground if it were no more."""

from dataclasses import dataclass

from django.db.models import Count, Q

from versiontree.models import Domain, Hplm, Root, Version
from versiontree.models.version import VersionKind


@dataclass(frozen=True, slots=True)
class Dependents:
    """What grows directly from a domain or a root: domains, and living hPLMs by tenant. ``hplms`` are the
    first of them by name."""

    domains: tuple[str, ...]
    tenants: tuple[tuple[str, int], ...]
    hplms: tuple[Hplm, ...]

    @property
    def hplm_count(self) -> int:
        """How many hPLMs there are in all."""
        return sum(count for _, count in self.tenants)

    def lines(self) -> list[str]:
        """A line for each domain, then one for each tenant with how many hPLMs it has there."""
        return [f"the domain {name}" for name in self.domains] + [
            f"{count} {'hPLM' if count == 1 else 'hPLMs'} of {slug}" for slug, count in self.tenants
        ]


def dependents_of(owner: Domain | Root, *, shown: int = 100) -> Dependents:
    """What grows directly from any version of it; at most ``shown`` hPLMs are named. Three queries."""
    here = (
        Q(parent__domain=owner) if isinstance(owner, Domain) else Q(parent__kind="root", parent__root=owner)
    )
    first = Version.unscoped.filter(here, number=1)
    domains = first.filter(kind=VersionKind.DOMAIN).order_by("domain__name")
    named = domains.values_list("domain__name", "tenant__slug")
    grown = Hplm.unscoped.filter(deleted_at=None, pk__in=first.values("hplm"))
    tenants = grown.order_by("tenant__slug").values_list("tenant__slug").annotate(Count("pk"))
    return Dependents(
        domains=tuple(f"{slug}/{name}" if slug else str(name) for name, slug in named),
        tenants=tuple(tenants),
        hplms=tuple(grown.select_related("tenant").order_by("tenant__slug", "name")[:shown]),
    )
