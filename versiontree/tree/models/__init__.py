"""The rows of the version tree."""

from versiontree.tree.models.alias import Alias, AliasMove
from versiontree.tree.models.artifact import Artifact, VersionArtifact
from versiontree.tree.models.coverage import Coverage, Evaluation
from versiontree.tree.models.domain import Domain, Root
from versiontree.tree.models.fine_tuning import FineTuning, FineTuningState
from versiontree.tree.models.hplm import Hplm
from versiontree.tree.models.version import Version

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
    "Version",
    "VersionArtifact",
]
