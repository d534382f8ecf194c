"""What a job returns: figures and artifacts."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from versiontree.artifact_store import StoredArtifact
from versiontree.tree.models import Artifact


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What goes into the job's row and its version.

    artifacts: finished folders by their role; reused: artifacts that the version shares with another one, by
    theirs; on_success: called once the job has succeeded for good.
    """

    metrics: Mapping[str, Any]
    artifacts: dict[str, Path] = field(default_factory=dict)
    reused: dict[str, StoredArtifact] = field(default_factory=dict)
    on_success: Callable[[], None] | None = None


def plain(value: Any) -> Any:
    """The same figures as JSON that PostgreSQL takes: no NumPy numbers, null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return str(value)


def shared_artifact(artifact: Artifact) -> StoredArtifact:
    """An artifact of another version as one that this version has too."""
    return StoredArtifact(artifact.kind, artifact.digest, artifact.size, artifact.files)
