"""Constraint recipes that several models share."""

from django.db import models

from versiontree.names import SLUG_PATTERN


def slug_check(label: str) -> models.CheckConstraint:
    """The rule of ``versiontree.names`` for the field ``name`` as a database constraint."""
    return models.CheckConstraint(condition=models.Q(name__regex=SLUG_PATTERN), name=label)
