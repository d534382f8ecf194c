"""Artifacts that a version shares with the one before it."""

from versiontree.artifact_store import StoredArtifact
from versiontree.tree.models import Artifact


def shared(artifact: Artifact) -> StoredArtifact:
    """An artifact of another version as one that this version has too."""
    return StoredArtifact(artifact.kind, artifact.digest, artifact.size, artifact.files)
