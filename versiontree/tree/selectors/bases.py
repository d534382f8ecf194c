"""Resolve the names of what can be trained further in the OpenAI API: roots, domains and models.

``root``, ``root/domain``, ``tenant/domain``, ``tenant/model``, each optionally with a version: ``:3``.
"""

import re
from typing import Final

from tenants.accounts.models import Tenant
from tenants.base.errors import not_found, require_found
from versiontree.names import SLUG
from versiontree.tree.models import Domain, Hplm, Root, RootKind, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.versions import (
    domains_visible_to,
    hplms_of,
    root_kind_of,
    roots_all,
    versions_of,
)

_NAME: Final = re.compile(rf"(?:(?P<scope>{SLUG})/)?(?P<name>{SLUG})(?::(?P<number>[1-9][0-9]{{0,8}}))?")


Base = Root | Domain | Hplm


def base_by_name(tenant: Tenant, name: str) -> tuple[Base, int | None]:
    """The root, domain or model with this name, and the version number in it, or ``not_found``.

    A model of the tenant takes precedence over its domain of the same name.
    """
    match = require_found(_NAME.fullmatch(name), "model", param="model")
    found = (
        _domain_or_hplm(tenant, match["scope"], match["name"])
        if match["scope"]
        else _root_or_hplm(tenant, match["name"])
    )
    if found is None:
        raise not_found("model", param="model")
    return found, int(match["number"]) if match["number"] else None


def base_version(base: Base, number: int | None) -> Version:
    """The version with this number, by default the newest ready one, else the newest. Or ``not_found``."""
    rows = versions_of(base)
    if number is not None:
        found = rows.filter(number=number).first()
    else:
        found = rows.filter(state=VersionState.READY).first() or rows.first()
    if found is None:
        raise not_found("model", param="model")
    return found


def bases_visible_to(tenant: Tenant) -> list[Base]:
    """The tenant's models, and the domains that it sees and the roots, without retired ones."""
    domains = domains_visible_to(tenant).filter(root__retired_at=None)
    return [*hplms_of(tenant), *domains, *roots_all().filter(retired_at=None)]


def base_root_kind(base: Base) -> RootKind:
    """The kind of the root that it is, or is built on."""
    if isinstance(base, Hplm):
        return root_kind_of(base.task)
    return RootKind((base.root if isinstance(base, Domain) else base).kind)


def base_name(base: Base) -> str:
    """The name by which ``base_by_name`` finds it."""
    if isinstance(base, Hplm):
        return f"{base.tenant.slug}/{base.name}"
    return str(base)


def _root_or_hplm(tenant: Tenant, name: str) -> Base | None:
    return roots_all().filter(name=name).first() or hplms_of(tenant).filter(name=name).first()


def _domain_or_hplm(tenant: Tenant, scope: str, name: str) -> Base | None:
    domains = domains_visible_to(tenant).filter(name=name)
    if scope == tenant.slug:
        own = hplms_of(tenant).filter(name=name).first() or domains.filter(tenant=tenant).first()
        if own is not None:
            return own
    below = domains.filter(root__name=scope)
    return below.filter(tenant=tenant).first() or below.first()
