"""The one rule for names of roots, domains, models and aliases."""

import re
from typing import Final

from tenants.base.errors import ErrorCode, HmiError

LONGEST_NAME: Final = 63
SLUG_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_SLUG = re.compile(SLUG_PATTERN.removesuffix("$") + r"\Z")


def require_slug(name: str, *, param: str = "name") -> str:
    """The name itself when it is a slug; otherwise a typed error that says the rule."""
    if not isinstance(name, str) or not _SLUG.match(name):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "A name is 1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end.",
            param=param,
        )
    return name
