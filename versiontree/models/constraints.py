"""Constraint recipes that several models share."""

from django.db import models

from versiontree.names import SLUG_PATTERN


def slug_check(label: str, field: str = "name") -> models.CheckConstraint:
    """The rule of ``versiontree.names`` as a database constraint."""
    return models.CheckConstraint(condition=models.Q((f"{field}__regex", SLUG_PATTERN)), name=label)
