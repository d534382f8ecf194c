"""What can be built upon, by the names that clients give: roots, domains, and models to go on from.

``root``, ``root/domain``, ``tenant/domain``, ``tenant/model``, each perhaps with ``:3`` behind it.
"""

import re
from typing import Final

from tenants.accounts.models import Tenant
from tenants.base.errors import not_found
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.versions import domains_visible_to, hplms_of, roots_all, versions_of

_SLUG: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"


_NAME: Final = re.compile(rf"(?:(?P<above>{_SLUG})/)?(?P<name>{_SLUG})(?::(?P<number>[1-9][0-9]{{0,8}}))?")


Base = Root | Domain | Hplm


def base_by_name(tenant: Tenant, name: str) -> tuple[Base, int | None]:
    """What the name means for this tenant, and the number of a version if it has one; else ``not_found`` for
    ``model``. A model of the tenant goes before a domain of its own with the same name."""
    read = _NAME.fullmatch(name)
    if read is None:
        raise not_found("model", param="model")
    found = (
        _domain_or_hplm(tenant, read["above"], read["name"])
        if read["above"]
        else _root_or_hplm(tenant, read["name"])
    )
    if found is None:
        raise not_found("model", param="model")
    return found, int(read["number"]) if read["number"] else None


def base_version(base: Base, number: int | None) -> Version:
    """The version with this number, else the newest that is ready, else the newest; ``not_found``."""
    rows = versions_of(base)
    if number is not None:
        found = rows.filter(number=number).first()
    else:
        found = rows.filter(state=VersionState.READY).first() or rows.first()
    if found is None:
        raise not_found("model", param="model")
    return found


def bases_visible_to(tenant: Tenant) -> list[Base]:
    """All that the tenant can ask or build upon: its models, the domains it sees, the roots."""
    return [*hplms_of(tenant), *domains_visible_to(tenant), *roots_all()]


def base_name(base: Base) -> str:
    """What it is called by."""
    if isinstance(base, Hplm):
        return f"{base.tenant.slug}/{base.name}"
    return str(base)


def _root_or_hplm(tenant: Tenant, name: str) -> Base | None:
    return roots_all().filter(name=name).first() or hplms_of(tenant).filter(name=name).first()


def _domain_or_hplm(tenant: Tenant, above: str, name: str) -> Base | None:
    domains = domains_visible_to(tenant).filter(name=name)
    if above == tenant.slug:
        own = hplms_of(tenant).filter(name=name).first() or domains.filter(tenant=tenant).first()
        if own is not None:
            return own
    below = domains.filter(root__name=above)
    return below.filter(tenant=tenant).first() or below.first()
