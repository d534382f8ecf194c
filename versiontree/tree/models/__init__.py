"""The models of the version tree."""

from versiontree.tree.models.artifact import Artifact, VersionArtifact
from versiontree.tree.models.domain import Domain, Root
from versiontree.tree.models.hplm import Alias, AliasMove, FineTuning, FineTuningState, Hplm
from versiontree.tree.models.measurements import Coverage, Evaluation
from versiontree.tree.models.version import Version
from versiontree.tree.root_kind import RootKind

__all__ = [
    "Alias",
    "AliasMove",
    "Artifact",
    "Coverage",
    "Domain",
    "Evaluation",
    "FineTuning",
    "FineTuningState",
    "Hplm",
    "Root",
    "RootKind",
    "Version",
    "VersionArtifact",
]
