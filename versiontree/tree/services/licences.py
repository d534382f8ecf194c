"""Under what terms roots and models may be used."""

from typing import Final

from django.db import transaction

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models import Hplm, Root
from versiontree.tree.models.hplm import LONGEST_DESCRIPTION

LONGEST_LICENCE: Final = 100


LONGEST_SOURCE: Final = 300


def licence_check(text: str, *, param: str = "license", longest: int = LONGEST_LICENCE) -> str:
    """The text as it is kept: one short line, or nothing. Raises ``invalid_field``."""
    cleaned = text.strip()
    if len(cleaned) > longest or not cleaned.isprintable():
        raise HmiError(ErrorCode.INVALID_FIELD, f"This is one line of at most {longest} signs.", param=param)
    return cleaned


def source_check(text: str) -> str:
    """Where a root was published, as it is kept."""
    return licence_check(text, param="source_url", longest=LONGEST_SOURCE)


@transaction.atomic
def hplm_licence(*, hplm: Hplm, license: str, actor: Actor) -> Hplm:  # noqa: A002
    """Say under which licence a model may be used."""
    hplm.license = licence_check(license)
    hplm.save(update_fields=["license"])
    detail = {"license": hplm.license}
    audit_record(verb="model.license", subject=str(hplm), tenant=hplm.tenant, actor=actor, detail=detail)
    return hplm


@transaction.atomic
def root_licence(*, root: Root, license: str, source_url: str, actor: Actor) -> Root:  # noqa: A002
    """Say under which licence a root may be used, and where it was published."""
    root.license, root.source_url = licence_check(license), source_check(source_url)
    root.save(update_fields=["license", "source_url"])
    detail = {"license": root.license, "source_url": root.source_url}
    audit_record(verb="root.license", subject=root.name, tenant=None, actor=actor, detail=detail)
    return root


@transaction.atomic
def hplm_describe(*, hplm: Hplm, description: str, actor: Actor) -> Hplm:
    """Say what a model is for, or nothing more; its page and its model card have it. Raises
    ``invalid_field``."""
    told = "\n".join(line.rstrip() for line in description.strip().splitlines())
    if len(told) > LONGEST_DESCRIPTION or not all(sign.isprintable() or sign in "\n\t" for sign in told):
        message = f"This is text of at most {LONGEST_DESCRIPTION:,} signs."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="description")
    hplm.description = told
    hplm.save(update_fields=["description"])
    audit_record(verb="model.describe", subject=str(hplm), tenant=hplm.tenant, actor=actor)
    return hplm
