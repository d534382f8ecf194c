"""Columns of the admin's lists."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, IntegerField, Model

NUMBERED: Final = frozenset({"number", "status", "version"})
"""Integer fields that name something and are no amounts."""


def grouped_columns(model: type[Model], columns: Iterable[Any]) -> list[Any]:
    """Return the columns of a list, those of amounts as columns that group digits: 439,560.

    Django's USE_THOUSAND_SEPARATOR would do so in every template too, also in addresses and attributes.
    """
    return [_grouped(field) if (field := _amount(model, name)) else name for name in columns]


def _amount(model: type[Model], name: Any) -> "Field[Any, Any] | None":
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    if not isinstance(field, IntegerField) or field.name in NUMBERED:
        return None
    return None if field.primary_key or field.choices else field


@cache  # Django compares the columns of one list with those of another call
def _grouped(field: "Field[Any, Any]") -> Callable[[Any], str | None]:
    @admin.display(description=str(field.verbose_name), ordering=field.name)
    def column(row: Any) -> str | None:
        amount = getattr(row, field.name)
        return None if amount is None else f"{amount:,}"

    column.__name__ = field.name
    return column
