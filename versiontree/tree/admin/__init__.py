"""The admin pages of the application; Django finds them here."""

from versiontree.tree.admin import base, dependents, forms, hplms, owners, versioned, versions

__all__ = ["base", "dependents", "forms", "hplms", "owners", "versioned", "versions"]
