"""Licenses of roots and models, and the URLs where roots were published."""

from typing import Final

from django.db import transaction

from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models import Hplm, Root

MAX_LICENSE_LENGTH: Final = 100
MAX_SOURCE_URL_LENGTH: Final = 300


def license_check(text: str, *, param: str = "license", max_length: int = MAX_LICENSE_LENGTH) -> str:
    """The stripped text. Raises ``invalid_field`` unless it is one line of at most ``max_length``."""
    cleaned = text.strip()
    if len(cleaned) > max_length or not cleaned.isprintable():
        message = f"This must be one line of at most {max_length} characters."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param=param)
    return cleaned


def source_url_check(text: str) -> str:
    """The stripped URL where a root was published. Raises ``invalid_field``."""
    return license_check(text, param="source_url", max_length=MAX_SOURCE_URL_LENGTH)


@transaction.atomic
def hplm_set_license(*, hplm: Hplm, license: str, actor: Actor) -> Hplm:  # noqa: A002
    """Set the license of a model. Raises ``invalid_field``."""
    before, hplm.license = hplm.license, license_check(license)
    hplm.save(update_fields=["license"])
    detail = {"license": change(before, hplm.license)}
    audit_record(verb="model.license", subject=str(hplm), tenant=hplm.tenant, actor=actor, detail=detail)
    return hplm


@transaction.atomic
def root_set_license(*, root: Root, license: str, source_url: str, actor: Actor) -> Root:  # noqa: A002
    """Set the license of a root and the URL where it was published. Raises ``invalid_field``."""
    before = {"license": root.license, "source_url": root.source_url}
    root.license, root.source_url = license_check(license), source_url_check(source_url)
    root.save(update_fields=["license", "source_url"])
    detail = {name: change(old, getattr(root, name)) for name, old in before.items()}
    audit_record(verb="root.license", subject=root.name, tenant=None, actor=actor, detail=detail)
    return root
