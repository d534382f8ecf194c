"""The rows of the version tree."""

from versiontree.models.alias import Alias, AliasMove
from versiontree.models.artifact import Artifact, VersionArtifact
from versiontree.models.batch import Batch, BatchState
from versiontree.models.coverage import Coverage
from versiontree.models.domain import Domain
from versiontree.models.evaluation import Evaluation
from versiontree.models.fine_tuning import FineTuning, FineTuningState
from versiontree.models.hplm import Hplm
from versiontree.models.job import Job, JobEvent
from versiontree.models.root import Root
from versiontree.models.shard import JobShard
from versiontree.models.version import Version

__all__ = [
    "Alias",
    "AliasMove",
    "Artifact",
    "Batch",
    "BatchState",
    "Coverage",
    "Domain",
    "Evaluation",
    "FineTuning",
    "FineTuningState",
    "Hplm",
    "Job",
    "JobEvent",
    "JobShard",
    "Root",
    "Version",
    "VersionArtifact",
]
