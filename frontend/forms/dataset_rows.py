"""The forms for the rows of a dataset: which to show, changes of a page, and a row from elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django import forms
from django.http import QueryDict

from tenants.base.row_ids import row_id
from tenants.datasets.formats.corrections import BETWEEN_LABELS
from tenants.datasets.formats.edits import RowChange
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.uploads import corrected_name

EDITABLE: Final = ("text", "text_pair", "question", "prompt", "completion", "label", "labels", "value")
"""Fields of rows that a page can edit. Rows of other fields can be removed."""
TITLES: Final = {"text_pair": "Second text", "labels": "Labels, separated by commas"}
LONG: Final = ("text", "text_pair", "prompt", "completion")
NEW: Final = "new"
LABELS_LIST: Final = "row-labels"
"""The id of the list of labels that the page suggests."""


class RowsFilterForm(forms.Form):
    """Which rows to show. A hidden `row` shows one row alone."""

    q = forms.CharField(
        label="Search rows",
        required=False,
        max_length=200,
        widget=forms.TextInput({"type": "search", "placeholder": "Search rows", "autocomplete": "off"}),
    )
    split = forms.ChoiceField(label="Split", choices=Split.choices, required=False)
    label = forms.ChoiceField(label="Label", required=False)
    wrong = forms.BooleanField(label="The model disagrees", required=False)

    def __init__(self, data: QueryDict, *, has_answers: bool, labels: Sequence[str]) -> None:
        super().__init__(data)
        self.fields["label"] = forms.ChoiceField(
            label="Label", choices=[("", "All labels"), *((one, one) for one in labels)], required=False
        )
        if not labels:
            del self.fields["label"]
        if not has_answers:
            del self.fields["wrong"]

    @property
    def split_shown(self) -> str:
        """Return the chosen split; that of the answers if only these are wanted."""
        if self.is_wrong_only:
            return Split.TEST
        chosen = self.data.get("split", "")
        return chosen if chosen in Split.values else Split.TRAIN

    @property
    def is_wrong_only(self) -> bool:
        """Return whether to show only rows that the model answered otherwise."""
        return "wrong" in self.fields and bool(self.data.get("wrong"))


class RowFields(forms.Form):
    """The fields of one row, or of a new one, and whether to remove it. `number` is None for a new row, which
    has the fields of `row`, filled with what is `known`."""

    remove = forms.BooleanField(label="Remove this row", required=False)

    def __init__(
        self,
        number: int | None,
        row: Mapping[str, Any],
        data: QueryDict | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        self.number, self.row = number, row
        filled = known or {} if number is None else row
        super().__init__(data, prefix=str(number or NEW))
        for name in EDITABLE:
            if name in row and not row.get("cut"):
                attributes = {"list": LABELS_LIST} if name == "label" else {}
                widget = forms.Textarea({"rows": 3}) if name in LONG else forms.TextInput(attributes)
                title = TITLES.get(name, name.capitalize())
                shown = _shown(filled.get(name, ""))
                self.fields[name] = forms.CharField(
                    label=title, required=False, widget=widget, initial=shown, strip=True
                )
        if number is None:
            del self.fields["remove"]

    @property
    def is_edited(self) -> bool:
        """Return whether a form that was sent has changes."""
        return self.is_bound and self.has_changed()

    def change(self, split: str) -> RowChange | None:
        """Return the change; None if the row stays as it is."""
        given = {name: self.cleaned_data[name] for name in EDITABLE if name in self.fields}
        if self.number is None:
            values: dict[str, Any] = {name: _value(name, text) for name, text in given.items()}
            return RowChange(split, None, values) if any(given.values()) else None
        if self.cleaned_data["remove"]:
            return RowChange(split, self.number, None)
        changed = {name: text for name, text in given.items() if text != _shown(self.row[name])}
        fields: dict[str, Any] = {name: _value(name, text) for name, text in changed.items()}
        return RowChange(split, self.number, fields) if fields else None


class RowChangesForm(forms.Form):
    """The rows of a page with their changes, and the name of the new dataset."""

    name = forms.CharField(label="Name of the new dataset", max_length=100)

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        rows: Sequence[tuple[int, Mapping[str, Any]]],
        blank: Mapping[str, Any],
        data: QueryDict | None = None,
    ) -> None:
        super().__init__(data, initial={"name": corrected_name(dataset)})
        self.split = split
        self.rows = [RowFields(number, row, data) for number, row in rows]
        self.new = RowFields(None, blank, data)

    def changes(self) -> list[RowChange]:
        """Return the changes, of a valid form. Raises nothing: the service says what does not fit."""
        forms_ = [one for one in (*self.rows, self.new) if one.is_valid()]
        return [change for one in forms_ if (change := one.change(self.split)) is not None]


class AddedRowForm(forms.Form):
    """A row from elsewhere, the dataset that gets it, and the name of the new dataset. `known`: the fields of
    the row as they came. Not editable ones stay."""

    name = forms.CharField(
        label="Name of the new dataset",
        max_length=100,
        required=False,
        help_text="Default: the next free name, such as tickets-2.",
    )

    def __init__(
        self,
        datasets: Sequence[Dataset],
        blank: Mapping[str, Any],
        known: Mapping[str, Any],
        data: QueryDict | None = None,
    ) -> None:
        super().__init__(data)
        self.datasets, self.known = {str(one.pk): one for one in datasets}, known
        choices = [(key, one.name) for key, one in self.datasets.items()]
        self.fields["dataset"] = forms.ChoiceField(label="Dataset", choices=choices, initial=choices[0][0])
        self.row = RowFields(None, blank, data, known)

    def chosen(self) -> Dataset:
        """Return the chosen dataset, of a valid form."""
        return self.datasets[self.cleaned_data["dataset"]]

    def change(self) -> RowChange:
        """Return the change that adds the row to the training split, of a valid form."""
        self.row.full_clean()
        added = self.row.change(Split.TRAIN)
        return RowChange(Split.TRAIN, None, {**self.known, **((added and added.fields) or {})})


def numbers_posted(data: QueryDict) -> list[int]:
    """Return the numbers of the rows that a form was sent for."""
    return [number for text in data.getlist("row") if (number := row_id(text))]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return BETWEEN_LABELS.join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(name: str, text: str) -> Any:
    """Return what is stored for the text of a field. A number that is none stays text: the service refuses
    it."""
    if name == "labels":
        return [one.strip() for one in text.split(",") if one.strip()]
    if name == "value":
        try:
            return float(text)
        except ValueError:
            return text
    return text
