"""The admin pages of the application; Django finds them here."""

from versiontree.tree.admin import (
    base,
    creation,
    facts,
    forms,
    hplms,
    owners,
    service_forms,
    standing,
    versions,
)

__all__ = ["base", "creation", "facts", "forms", "hplms", "owners", "service_forms", "standing", "versions"]
