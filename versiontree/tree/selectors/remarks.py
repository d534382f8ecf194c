"""What the making of a version left to be said to those who use it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from versiontree.tree.models import Version


def version_warnings(version: Version) -> list[str]:
    """The warnings of the version's data and of its jobs, once each."""
    sources: Iterable[Any] = (version.config, *version.metrics.values())
    found = [warning for source in sources if isinstance(source, Mapping) for warning in _told(source)]
    return list(dict.fromkeys(found))


def _told(source: Mapping[str, Any]) -> Sequence[str]:
    warnings = source.get("warnings") or []
    return [str(warning) for warning in warnings] if isinstance(warnings, list) else []
