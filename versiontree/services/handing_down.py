"""What a version that the platform makes of the one above it takes over from its config."""

from typing import Any, Final

from versiontree.chains import COMPACTS
from versiontree.models import Version

_ITS_OWN: Final = frozenset({COMPACTS, "imported", "warnings", "grown"})
"""What is said of one version alone: which tables its own holds, where it comes from, what was amiss with the
text it learned from, how it grew."""


def config_handed_down(above: Version) -> dict[str, Any]:
    """The config of a version without what is true of that version alone."""
    return {name: value for name, value in above.config.items() if name not in _ITS_OWN}
