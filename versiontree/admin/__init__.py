"""The admin pages of the application; Django finds them here."""

from versiontree.admin import jobs, owners, shards, versions

__all__ = ["jobs", "owners", "shards", "versions"]
