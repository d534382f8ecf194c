"""The form of a new batch."""

from collections.abc import Iterable
from typing import Any, Final

from django import forms

from inference.batches.models import MAX_LINES
from inference.batches.tables import INPUT
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models.hplm import DEFAULT_ALIAS

FIELD: Final = "column_"
"""Before the name of a field of an input, in the name of the select of its column."""
ASKED_FOR: Final = "columns_of"
"""The hidden field with the model whose columns were asked for. Those of another model are asked for anew."""


class BatchForm(forms.Form):
    """A model, and a file with a text in each row. `columns_in_question` adds a select for each column that
    cannot be guessed."""

    use_required_attribute = False

    file = forms.FileField(
        label="File",
        allow_empty_file=True,
        help_text="CSV with a header row, plain text with one text per line, or JSON with"
        f' one value per line, such as {{"id": "a1", "text": "Hello"}}. Up to {MAX_LINES:,} rows.',
        # htmx keeps the chosen file when the form comes back with an error.
        widget=forms.ClearableFileInput(
            {"accept": ".csv,.tsv,.txt,.jsonl,.ndjson,.json,text/csv", "hx-preserve": "true"}
        ),
    )
    model = forms.CharField(
        label="Model",
        max_length=256,
        help_text="A name, name@alias or name:version.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "list": "batch-models"}),
    )
    column = forms.CharField(
        label="Column with the texts",
        required=False,
        max_length=200,
        help_text="For CSV. If left empty, the column with a usual name is used, such as text or message.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        asked = [name.removeprefix(FIELD) for name in self.data if name.startswith(FIELD)]
        model = self.data.get("model")
        if asked and self.data.get(ASKED_FOR, model) == model:
            self._ask(asked, [self.data[FIELD + name] for name in asked])

    def columns(self) -> dict[str, str]:
        """The chosen column by field of the model's inputs."""
        chosen = {INPUT: self.cleaned_data.get("column", "")}
        chosen |= {
            name.removeprefix(FIELD): self.cleaned_data[name]
            for name in self.cleaned_data
            if name.startswith(FIELD)
        }
        return {field: column for field, column in chosen.items() if column}

    def columns_in_question(self, error: HmiError) -> None:
        """Offer the columns that the file has, where the error says that one is missing."""
        if error.code == ErrorCode.MISSING_COLUMN and error.details:
            self._ask(error.details["fields"], error.details["found"])
            for name in error.details["fields"]:
                self.fields[FIELD + name].required = True
            self.add_error(FIELD + error.details["missing"][0], error.message)

    def _ask(self, fields: Iterable[str], columns: Iterable[str]) -> None:
        self.fields.pop("column", None)
        choices = [("", "Choose…"), *((column, column) for column in columns)]
        for name in fields:
            label = f"Column for {name.replace('_', ' ')}"
            field = forms.CharField(label=label, required=False, widget=forms.Select(choices=choices))
            self.fields[FIELD + name] = field
        self.fields[ASKED_FOR] = forms.CharField(required=False, widget=forms.HiddenInput)
        self.data = dict(self.data.items()) | {ASKED_FOR: self.data.get("model", "")}


def model_name(reference: str) -> str:
    """The reference as people write it: without the alias that it has by default."""
    return reference.removesuffix(f"@{DEFAULT_ALIAS}")
