"""What tenants and their uploads may be called."""

import re

from tenants.accounts.models.tenant import SLUG_PATTERN
from tenants.base.errors import ErrorCode, HmiError


def clean_slug(slug: str) -> str:
    """A slug as it is stored, or ``invalid_field``."""
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "A slug is 1 to 50 lower-case letters, digits and hyphens, with no hyphen at either end.",
            param="slug",
        )
    return slug


def clean_name(name: str, *, longest: int = 100) -> str:
    """A name without surrounding space, or ``missing_field`` / ``invalid_field``."""
    cleaned = name.strip()
    if not cleaned:
        raise HmiError(ErrorCode.MISSING_FIELD, "A name is needed.", param="name")
    if len(cleaned) > longest or not cleaned.isprintable():
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"A name is at most {longest} printable characters, on one line.",
            param="name",
        )
    return cleaned
