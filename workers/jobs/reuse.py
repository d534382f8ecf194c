"""Artifacts that a version shares with the one before it."""

from versiontree.artifacts import StoredArtifact
from versiontree.models import Artifact


def shared(artifact: Artifact) -> StoredArtifact:
    """An artifact of another version as one that this version has too."""
    return StoredArtifact(artifact.kind, artifact.digest, artifact.size, artifact.files)
