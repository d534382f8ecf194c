"""How a model is named in a request: ``[tenant/]hplm[@alias|:version]``."""

import re
from dataclasses import dataclass

from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models.alias import DEFAULT_ALIAS

_SLUG = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_REFERENCE = re.compile(
    rf"(?:(?P<tenant>{_SLUG})/)?(?P<hplm>{_SLUG})(?:@(?P<alias>{_SLUG})|:(?P<number>[1-9][0-9]{{0,8}}))?"
)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A parsed reference: ``tenant`` is None when it was left out; ``number`` when an alias is meant."""

    tenant: str | None
    hplm: str
    alias: str
    number: int | None


def parse_reference(reference: str) -> ModelReference:
    """Take a reference apart; ``invalid_field`` when it is not one."""
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if found is None:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "A model is named tenant/model, tenant/model@alias or tenant/model:version.",
            param="model",
        )
    number = found["number"]
    return ModelReference(
        tenant=found["tenant"],
        hplm=found["hplm"],
        alias=found["alias"] or DEFAULT_ALIAS,
        number=int(number) if number else None,
    )
