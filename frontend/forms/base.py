"""What forms share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, cast

from django import forms
from django.db.models import Model, Q, QuerySet

NAME_HELP = "Lower-case letters, digits and hyphens. It cannot be changed later."
MAX_NAME_LENGTH = 63
OFFERED: Final = 50
"""Rows among which to choose at once; the others are looked for."""
FIND: Final = "find_"
"""With the name of a field behind it: under this name the words come to look for."""


def slug_field(label: str = "Name") -> forms.CharField:
    """The name of a node of the version tree; the services check its letters."""
    widget = forms.TextInput({"autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=label, max_length=MAX_NAME_LENGTH, help_text=NAME_HELP, widget=widget)


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
        self.more = False
        self.words = ""

    def offer(self, rows: Iterable[tuple[Model, str]]) -> None:
        """Set what there is to choose from: rows with their labels."""
        offered = list(rows)
        self.rows = {str(row.pk): row for row, _ in offered}
        self.choices = [("", "Choose…"), *((str(row.pk), label) for row, label in offered)]

    @property
    def many(self) -> bool:
        """Whether there are more than can be chosen among at once, so that one has to look for the others."""
        return self.more or bool(self.words)

    def clean(self, value: Any) -> Any:
        """The chosen row. Raises ValidationError for anything that was not on offer."""
        return self.rows.get(super().clean(value))


class PickForm(forms.Form):
    """A form with `PickField`s."""

    def pick(self, name: str) -> PickField:
        """The field of this name."""
        return cast("PickField", self.fields[name])

    @property
    def looks_for(self) -> bool:
        """Whether one of the fields has more to choose among than it offers at once."""
        return any(isinstance(field, PickField) and field.many for field in self.fields.values())

    def offer_found(
        self,
        name: str,
        rows: QuerySet[Any],
        described: Callable[[Any], str],
        *,
        named: Sequence[str] = ("name",),
    ) -> None:
        """Let the field choose among the first of these rows that have the words that are looked for in one
        of their names, and whatever row was chosen already."""
        field, words = self.pick(name), self._given(f"{FIND}{name}")
        found = rows
        for word in words.split():
            found = found.filter(reduce(or_, (Q(**{f"{one}__icontains": word}) for one in named)))
        first = list(found[: OFFERED + 1])
        offered = first[:OFFERED]
        chosen = self._given(name)
        if chosen.isdecimal() and chosen not in {str(row.pk) for row in offered}:
            offered += rows.filter(pk=chosen)
        field.offer((row, described(row)) for row in offered)
        field.words, field.more = words, len(first) > OFFERED

    def _given(self, name: str) -> str:
        return str(self.data.get(name) or self.initial.get(name) or "")

    def missing(self) -> list[Need]:
        """What must be made before the form can be filled in."""
        fields = [field for field in self.fields.values() if isinstance(field, PickField)]
        return [field.need for field in fields if field.need and not field.rows and not field.words]
