"""What an hPLM is for, in its makers' words."""

from django.db import transaction

from tenants.errors import ErrorCode, HmiError
from tenants.services.audit import Actor, audit_record
from versiontree.archive.manifest import LONGEST
from versiontree.models import Hplm


@transaction.atomic
def hplm_describe(*, hplm: Hplm, description: str, actor: Actor) -> Hplm:
    """Say what an hPLM is for, or nothing more; its page and its model card have it. Raises
    ``invalid_field``."""
    told = "\n".join(line.rstrip() for line in description.strip().splitlines())
    longest = LONGEST["description"]
    if len(told) > longest or not all(sign.isprintable() or sign in "\n\t" for sign in told):
        message = f"This is text of at most {longest:,} signs."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="description")
    hplm.description = told
    hplm.save(update_fields=["description"])
    audit_record(verb="hplm.describe", subject=str(hplm), tenant=hplm.tenant, actor=actor)
    return hplm
