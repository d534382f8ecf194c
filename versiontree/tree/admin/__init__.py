"""The admin pages of the application; Django finds them here."""

from versiontree.tree.admin import (
    base,
    coverage,
    creation,
    evaluations,
    facts,
    fine_tunings,
    forms,
    hplms,
    owners,
    service_forms,
    standing,
    versions,
)

__all__ = [
    "base",
    "coverage",
    "creation",
    "evaluations",
    "facts",
    "fine_tunings",
    "forms",
    "hplms",
    "owners",
    "service_forms",
    "standing",
    "versions",
]
