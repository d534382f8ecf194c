"""Long pieces of work on the version tree."""

from versiontree.jobs.models.job import Job, JobEvent
from versiontree.jobs.models.shard import JobShard

__all__ = ["Job", "JobEvent", "JobShard"]
