"""The admin pages of the application; Django finds them here."""

from versiontree.admin import jobs, owners, versions

__all__ = ["jobs", "owners", "versions"]
