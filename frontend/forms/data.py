"""Forms for uploads."""

from typing import Any

from django import forms

from tenants.formats.rows import needed_columns
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
        help_text="JSON lines, CSV or TSV with columns text and label (tagging: tokens and tags), or CoNLL.",
    )
    dev = forms.FileField(label="Development file", required=False, allow_empty_file=True)
    test = forms.FileField(
        label="Test file",
        required=False,
        allow_empty_file=True,
        help_text="What you leave out is set aside from the training file, a tenth each.",
    )
    text_column = forms.CharField(label="Column of the text or tokens", required=False)
    label_column = forms.CharField(
        label="Column of the label or tags",
        required=False,
        help_text="Only if your files call them otherwise.",
    )

    more = ("dev", "test", "text_column", "label_column")
    more_label = "More files and columns"

    def upload(self) -> dict[str, Any]:
        """Task, files and column mapping as the services take them."""
        cleaned = self.cleaned_data
        given = {split: cleaned.get(split) for split in Split.values}
        named = zip(
            needed_columns(cleaned["task"]), (cleaned["text_column"], cleaned["label_column"]), strict=True
        )
        return {
            "task": cleaned["task"],
            "files": {split: (file.name, file) for split, file in given.items() if file is not None},
            "columns": {column: name for column, name in named if name} or None,
        }
