"""The admin pages of the application; Django finds them here."""

from versiontree.admin import coverage, jobs, owners, shards, versions

__all__ = ["coverage", "jobs", "owners", "shards", "versions"]
