"""What a model is for, in its makers' words."""

from django.db import transaction

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models import Hplm
from versiontree.tree.models.hplm import LONGEST_DESCRIPTION


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
