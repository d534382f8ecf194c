"""The admin pages of the application; Django finds them here."""

from versiontree.admin import asked, coverage, evaluations, hplms, jobs, owners, shards, versions

__all__ = ["asked", "coverage", "evaluations", "hplms", "jobs", "owners", "shards", "versions"]
