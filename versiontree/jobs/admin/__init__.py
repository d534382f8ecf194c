"""The admin pages of the application; Django finds them here."""

from versiontree.jobs.admin import jobs

__all__ = ["jobs"]
