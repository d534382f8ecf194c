"""Forms for uploads."""

from typing import Any

from django import forms

from tenants.formats.check import DEFAULT_SEPARATOR
from tenants.formats.rows import NEEDED
from tenants.models import Split, Task

LONGEST_NAME = 100


def _name_field() -> forms.CharField:
    return forms.CharField(
        label="Name", max_length=LONGEST_NAME, widget=forms.TextInput({"autocomplete": "off"})
    )


class CorpusForm(forms.Form):
    """A corpus: plain text of a field."""

    name = _name_field()
    file = forms.FileField(
        label="Text file",
        allow_empty_file=True,
        help_text="UTF-8, one text (a sentence or a paragraph) per line; or JSON lines with a field text.",
    )

    def upload(self) -> dict[str, Any]:
        """The file as the services take it."""
        file = self.cleaned_data["file"]
        return {"stream": file, "filename": file.name}


class DatasetForm(forms.Form):
    """A dataset: labelled rows in one to three files."""

    name = _name_field()
    task = forms.ChoiceField(
        label="Task", choices=Task.choices, initial=Task.CLASSIFICATION, widget=forms.RadioSelect
    )
    train = forms.FileField(
        label="Training file",
        allow_empty_file=True,
        help_text="JSON lines, CSV or TSV; CoNLL for tagging, SQuAD answers for questions. The columns are"
        " text and label, labels or value, and text_pair where there are two texts; tokens and tags; or"
        " question, context and answers.",
    )
    dev = forms.FileField(label="Development file", required=False, allow_empty_file=True)
    test = forms.FileField(
        label="Test file",
        required=False,
        allow_empty_file=True,
        help_text="What you leave out is set aside from the training file, a tenth each.",
    )
    text_column = forms.CharField(label="Column of the text, tokens or question", required=False)
    pair_column = forms.CharField(label="Column of the second text or context", required=False)
    label_column = forms.CharField(
        label="Column of the label, labels, value, tags or answers",
        required=False,
        help_text="Only if your files call them otherwise.",
    )
    separator = forms.CharField(
        label="Between several labels in a cell",
        required=False,
        max_length=3,
        help_text=f"Multi-label tables only; {DEFAULT_SEPARATOR} unless you say otherwise.",
    )
    allow_leaks = forms.BooleanField(
        label="Take it although rows of dev or test stand in train, too",
        required=False,
        help_text="For published data that cannot be changed. Measures on it flatter, and pages say so.",
    )

    more = ("dev", "test", "text_column", "pair_column", "label_column", "separator", "allow_leaks")
    more_label = "More files, columns and leaks"

    def upload(self) -> dict[str, Any]:
        """Task, files, column mapping and choices as the services take them."""
        cleaned = self.cleaned_data
        given = {split: cleaned.get(split) for split in Split.values}
        return {
            "task": cleaned["task"],
            "files": {split: (file.name, file) for split, file in given.items() if file is not None},
            "columns": self._columns() or None,
            "separator": cleaned["separator"] or DEFAULT_SEPARATOR,
            "allow_leaks": cleaned["allow_leaks"],
        }

    def _columns(self) -> dict[str, str]:
        """Canonical column -> what was filled in for it."""
        first, *middle, last = NEEDED[self.cleaned_data["task"]]
        named = {
            first: self.cleaned_data["text_column"],
            (middle or ["text_pair"])[0]: self.cleaned_data["pair_column"],
            last: self.cleaned_data["label_column"],
        }
        return {column: name for column, name in named.items() if name}
