"""Editing roots and models without a new version: license, description, pinning."""

from typing import Final

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError, not_found
from versiontree.tree.models import Hplm, Root
from versiontree.tree.models.hplm import MAX_DESCRIPTION_LENGTH
from versiontree.tree.serving_manifest import manifest_publish_on_commit

MAX_LICENSE_LENGTH: Final = 100


MAX_SOURCE_URL_LENGTH: Final = 300


def license_check(text: str, *, param: str = "license", longest: int = MAX_LICENSE_LENGTH) -> str:
    """The stripped text. Raises ``invalid_field`` unless it is one line of ``longest`` characters at most."""
    cleaned = text.strip()
    if len(cleaned) > longest or not cleaned.isprintable():
        raise HmiError(ErrorCode.INVALID_FIELD, f"This is one line of at most {longest} signs.", param=param)
    return cleaned


def source_url_check(text: str) -> str:
    """The URL where a root was published, checked as ``license_check`` does."""
    return license_check(text, param="source_url", longest=MAX_SOURCE_URL_LENGTH)


@transaction.atomic
def hplm_set_license(*, hplm: Hplm, license: str, actor: Actor) -> Hplm:  # noqa: A002
    """Set the license of a model. Raises ``invalid_field``."""
    hplm.license = license_check(license)
    hplm.save(update_fields=["license"])
    detail = {"license": hplm.license}
    audit_record(verb="model.license", subject=str(hplm), tenant=hplm.tenant, actor=actor, detail=detail)
    return hplm


@transaction.atomic
def root_set_license(*, root: Root, license: str, source_url: str, actor: Actor) -> Root:  # noqa: A002
    """Set the license of a root and the URL where it was published. Raises ``invalid_field``."""
    root.license, root.source_url = license_check(license), source_url_check(source_url)
    root.save(update_fields=["license", "source_url"])
    detail = {"license": root.license, "source_url": root.source_url}
    audit_record(verb="root.license", subject=root.name, tenant=None, actor=actor, detail=detail)
    return root


@transaction.atomic
def hplm_set_description(*, hplm: Hplm, description: str, actor: Actor) -> Hplm:
    """Set or clear the description, shown on the model's page and in its model card. Raises
    ``invalid_field``."""
    told = "\n".join(line.rstrip() for line in description.strip().splitlines())
    if len(told) > MAX_DESCRIPTION_LENGTH or not all(sign.isprintable() or sign in "\n\t" for sign in told):
        message = f"This is text of at most {MAX_DESCRIPTION_LENGTH:,} signs."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="description")
    hplm.description = told
    hplm.save(update_fields=["description"])
    audit_record(verb="model.describe", subject=str(hplm), tenant=hplm.tenant, actor=actor)
    return hplm


@transaction.atomic
def hplm_pin(*, hplm: Hplm, actor: Actor) -> bool:
    """Keep the versions that the model's aliases point at in the memory of inference workers.

    Returns False if it is pinned already. Raises ``not_found`` (deleted).
    """
    _require_living(hplm)
    rows = Hplm.unscoped.filter(pk=hplm.pk, pinned_at=None)
    return _done(hplm, "model.pin", actor) if rows.update(pinned_at=timezone.now()) else False


@transaction.atomic
def hplm_unpin(*, hplm: Hplm, actor: Actor) -> bool:
    """Undo ``hplm_pin``. Returns False if it was not pinned. Raises ``not_found`` (deleted)."""
    _require_living(hplm)
    rows = Hplm.unscoped.filter(pk=hplm.pk, pinned_at__isnull=False)
    return _done(hplm, "model.unpin", actor) if rows.update(pinned_at=None) else False


def _require_living(hplm: Hplm) -> None:
    rows = Hplm.unscoped.select_for_update(no_key=True).filter(pk=hplm.pk, deleted_at=None)
    if not rows.exists():
        raise not_found("model", param="model")


def _done(hplm: Hplm, verb: str, actor: Actor) -> bool:
    audit_record(verb=verb, subject=str(hplm), tenant=hplm.tenant, actor=actor)
    manifest_publish_on_commit()
    return True
