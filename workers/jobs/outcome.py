"""What a job returns: metrics and artifacts."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from versiontree.artifact_store import StoredArtifact


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What is saved to the job and its version.

    artifacts: finished folders by role. reused: artifacts shared with another version, by role. on_success:
    called once the job is saved as succeeded.
    """

    metrics: Mapping[str, Any]
    artifacts: dict[str, Path] = field(default_factory=dict)
    reused: dict[str, StoredArtifact] = field(default_factory=dict)
    on_success: Callable[[], None] | None = None


def to_json(value: Any) -> Any:
    """The value as JSON that PostgreSQL accepts: no NumPy numbers, None for numbers that are not finite, the
    replacement character for null characters, which a model may write."""
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return str(value)
