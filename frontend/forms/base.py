"""What forms share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.db.models import Model

NAME_HELP = "Lower-case letters, digits and hyphens. It cannot be changed later."
LONGEST_NAME = 63


def slug_field(label: str = "Name") -> forms.CharField:
    """The name of a node of the version tree; the services check its letters."""
    widget = forms.TextInput({"autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=label, max_length=LONGEST_NAME, help_text=NAME_HELP, widget=widget)


@dataclass(frozen=True, slots=True)
class Need:
    """Something without which a form cannot be filled in, and the page where it is made."""

    text: str
    page: str = ""
    label: str = ""


class PickField(forms.ChoiceField):
    """A choice among rows that a selector has already limited to the tenant; cleans to the row itself."""

    def __init__(self, *, need: Need | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.need = need
        self.rows: dict[str, Model] = {}

    def offer(self, rows: Iterable[tuple[Model, str]]) -> None:
        """Set what there is to choose from: rows with their labels."""
        offered = list(rows)
        self.rows = {str(row.pk): row for row, _ in offered}
        self.choices = [("", "Choose…"), *((str(row.pk), label) for row, label in offered)]

    def clean(self, value: Any) -> Any:
        """The chosen row. Raises ValidationError for anything that was not on offer."""
        return self.rows.get(super().clean(value))


class PickForm(forms.Form):
    """A form with `PickField`s."""

    def pick(self, name: str) -> PickField:
        """The field of this name."""
        return cast("PickField", self.fields[name])

    def missing(self) -> list[Need]:
        """What must be made before the form can be filled in."""
        fields = [field for field in self.fields.values() if isinstance(field, PickField)]
        return [field.need for field in fields if field.need is not None and not field.rows]
