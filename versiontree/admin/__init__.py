"""The admin pages of the application; Django finds them here."""

from versiontree.admin import coverage, evaluations, hplms, jobs, owners, shards, versions

__all__ = ["coverage", "evaluations", "hplms", "jobs", "owners", "shards", "versions"]
