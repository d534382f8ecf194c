"""Names of roots, domains, models and aliases are slugs, by validation and by a database constraint."""

import re
from typing import Final

from django.db import models

from tenants.base.errors import ErrorCode, HmiError

MAX_NAME_LENGTH: Final = 63
SLUG_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
SLUG: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""The same, to build larger patterns of."""
SLUG_RULE: Final = "A name is 1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end."


def require_slug(name: str, *, param: str = "name") -> str:
    """Return the name unchanged. Raises ``invalid_field`` if it is not a slug."""
    if not isinstance(name, str) or not re.fullmatch(SLUG, name):
        raise HmiError(ErrorCode.INVALID_FIELD, SLUG_RULE, param=param)
    return name


def slug_of(title: str) -> str:
    """The title as a slug, to suggest it as a name; empty if it has no letter or digit of ASCII."""
    letters = "".join(one if one.isascii() and one.isalnum() else "-" for one in title.lower())
    return "-".join(part for part in letters.split("-") if part)[:MAX_NAME_LENGTH].strip("-")


def slug_check(label: str) -> models.CheckConstraint:
    """A check constraint that the field ``name`` is a slug."""
    return models.CheckConstraint(
        condition=models.Q(name__regex=SLUG_PATTERN), name=label, violation_error_message=SLUG_RULE
    )
