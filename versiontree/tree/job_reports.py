"""Reading what jobs reported: JSON of which nothing is sure, for an archive may have brought it."""

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a figure; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def mapping_of(found: Any) -> Mapping[str, Any]:
    """What was found where an object should be; empty when it is none."""
    return found if isinstance(found, Mapping) else {}
