"""Base classes of forms: names, and choices among rows of the database."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, cast

from django import forms
from django.db.models import Model, Q, QuerySet

from tenants.base.row_ids import row_id

NAME_HELP = "Lower-case letters, digits and hyphens."
MAX_NAME_LENGTH = 63
MAX_CHOICES: Final = 50
"""A field offers at most this number of rows. Others are found by search."""
SEARCH_PREFIX: Final = "find_"
"""The search of a field has this prefix and the name of the field."""


def slug_field(label: str = "Name", *, is_final: bool = False) -> forms.CharField:
    """Return a field for the name of a node of the version tree, which cannot be changed later if
    ``is_final``. The services validate its characters."""
    widget = forms.TextInput({"autocomplete": "off", "spellcheck": "false"})
    note = f"{NAME_HELP} It cannot be changed later." if is_final else NAME_HELP
    return forms.CharField(label=label, max_length=MAX_NAME_LENGTH, help_text=note, widget=widget)


@dataclass(frozen=True, slots=True)
class MissingObject:
    """An object that a form requires and the tenant does not have, with the page to create it."""

    text: str
    page: str = ""
    label: str = ""


class RowChoiceField(forms.ChoiceField):
    """A choice among rows that a selector has limited to the tenant. It cleans to the row."""

    def __init__(self, *, missing: MissingObject | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.missing = missing
        self.rows: dict[str, Model] = {}
        self.more = False
        self.words = ""

    def offer(self, rows: Iterable[tuple[Model, str]]) -> None:
        """Set the rows to choose from, with their labels."""
        offered = list(rows)
        self.rows = {str(row.pk): row for row, _ in offered}
        self.choices = [("", "Choose…"), *((str(row.pk), label) for row, label in offered)]

    @property
    def needs_search(self) -> bool:
        """Return whether there are more rows than the field offers at once."""
        return self.more or bool(self.words)

    def clean(self, value: Any) -> Any:
        """Return the chosen row. Raises ValidationError for a value that was not offered."""
        return self.rows.get(super().clean(value))


class RowChoiceForm(forms.Form):
    """A form with fields of the type `RowChoiceField`."""

    def row_field(self, name: str) -> RowChoiceField:
        """Return the field with this name."""
        return cast("RowChoiceField", self.fields[name])

    @property
    def needs_search(self) -> bool:
        """Return whether a field has more rows than it offers at once."""
        return any(isinstance(field, RowChoiceField) and field.needs_search for field in self.fields.values())

    def offer_rows(
        self,
        name: str,
        rows: QuerySet[Any],
        label: Callable[[Any], str],
        *,
        named: Sequence[str] = ("name",),
    ) -> None:
        """Offer the first rows whose names contain the searched words, and the row that is already chosen."""
        field, words = self.row_field(name), self._value(f"{SEARCH_PREFIX}{name}")
        found = rows
        for word in words.split():
            found = found.filter(reduce(or_, (Q(**{f"{one}__icontains": word}) for one in named)))
        first = list(found[: MAX_CHOICES + 1])
        offered = first[:MAX_CHOICES]
        chosen = row_id(self._value(name))
        if chosen and chosen not in {row.pk for row in offered}:
            offered += rows.filter(pk=chosen)
        field.offer((row, label(row)) for row in offered)
        field.words, field.more = words, len(first) > MAX_CHOICES

    def _value(self, name: str) -> str:
        return str(self.data.get(name) or self.initial.get(name) or "")

    def missing_objects(self) -> list[MissingObject]:
        """Return the objects that must be created before the form can be filled in."""
        fields = [field for field in self.fields.values() if isinstance(field, RowChoiceField)]
        return [field.missing for field in fields if field.missing and not field.rows and not field.words]
