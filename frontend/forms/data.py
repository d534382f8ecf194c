"""Forms for uploads of corpora and datasets.

With JavaScript, files are uploaded in pieces first, and the form has the ids of the uploads. Without it, the
form contains the files.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.html import format_html_join

from tenants.datasets.formats.columns import FileColumns, task_columns
from tenants.datasets.formats.row_parser import DEFAULT_SEPARATOR
from tenants.datasets.models import DATASET_TASK_CHOICES, CheckKind, CheckState, Task, UploadCheck

COLUMN_LABELS = {
    "text": "Text",
    "text_pair": "Second text",
    "label": "Label",
    "labels": "Labels",
    "value": "Value",
    "tokens": "Tokens",
    "tags": "Tags",
    "question": "Question",
    "context": "Context",
    "answers": "Answers",
    "prompt": "Prompt",
    "completion": "Completion",
    "messages": "Messages",
}
"""Label of each column of a task."""
COLUMNS_HELP = {
    "": "A text with a label makes a classification, a prompt with a completion a generation, and so on.",
    Task.CLASSIFICATION: "Columns: text and label. Pairs of texts also have text_pair.",
    Task.MULTILABEL: "Columns: text and labels. Pairs of texts also have text_pair.",
    Task.REGRESSION: "Columns: text and value, a number. Pairs of texts also have text_pair.",
    Task.TAGGING: "Columns: tokens and tags, or a text and the spans of its characters.",
    Task.QUESTION_ANSWERING: "Columns: question, context and answers.",
    Task.GENERATION: "Columns: prompt and completion.",
    Task.CHAT: "Column: messages, each with a role and content.",
}
"""What a file of each task has. The page shows that of the chosen one."""
PAIR_LABELS = {
    "text": "First text",
    "label": "Label of the pair",
    "labels": "Labels of the pair",
    "value": "Value of the pair",
}


class ColumnsForm(forms.Form):
    """The mapping of the columns of a checked file to the columns of the task.

    ``guessed``: the columns of the file that were chosen by their names, by label. Empty if the user chose,
    or has to choose.
    """

    use_required_attribute = False

    def __init__(self, check: UploadCheck, found: FileColumns) -> None:
        super().__init__()
        given = check.options.get("columns") or {}
        by_name = found.guessed_mapping(check.options["task"])
        paired = "text_pair" in found.default_mapping or "text_pair" in given
        for name in task_columns(check.options["task"]):
            default = found.default_mapping.get(name)
            chosen = given.get(name, "") if given else by_name.get(name, "")
            self.fields[_field(name)] = forms.CharField(
                label=(PAIR_LABELS if paired else {}).get(name, COLUMN_LABELS[name]),
                required=name != "text_pair",
                initial=chosen if chosen in found.examples else "",
                widget=forms.Select(choices=_column_choices(name, default, found.examples)),
            )
        passed = check.state == CheckState.PASSED and given == by_name
        self.guessed = {self[_field(name)].label: column for name, column in given.items()} if passed else {}


def columns_chosen(data: Mapping[str, str], task: str) -> dict[str, str]:
    """Return the chosen columns of the file by column of the task, without defaults."""
    chosen = {name: data.get(_field(name), "") for name in task_columns(task)}
    return {name: column for name, column in chosen.items() if column}


def _field(name: str) -> str:
    return f"column_{name}"


def _column_choices(name: str, default: str | None, examples: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the choices for a column. The default is first, and has no value."""
    none = "none" if name == "text_pair" else "Choose…"
    first = ("", none if default is None else _column_label(default, examples))
    return [first, *((column, _column_label(column, examples)) for column in examples if column != default)]


def _column_label(column: str, examples: Mapping[str, str]) -> str:
    example = examples.get(column)
    return f"{column} ({example})" if example else column


MAX_NAME_LENGTH = 100


def _name_field() -> forms.CharField:
    return forms.CharField(
        label="Name", max_length=MAX_NAME_LENGTH, widget=forms.TextInput({"autocomplete": "off"})
    )


def _file_field(label: str, *, help_text: str = "", required: bool = False) -> forms.FileField:
    return forms.FileField(
        label=label,
        required=required,
        allow_empty_file=True,
        help_text=help_text,
        error_messages={"required": "Choose a file."},
    )


class UploadForm(forms.Form):
    """A form with files. Each file field has a hidden field for the id of its upload."""

    use_required_attribute = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.file_names = [name for name, field in self.fields.items() if isinstance(field, forms.FileField)]
        for name in self.file_names:
            self.fields[_upload_field(name)] = forms.UUIDField(required=False, widget=forms.HiddenInput)

    def full_clean(self) -> None:
        """Validate; a file is not required if the id of its upload is given."""
        needed = [name for name in self.file_names if self.fields[name].required]
        for name in needed:
            self.fields[name].required = not self.data.get(_upload_field(name))
        super().full_clean()
        for name in needed:
            self.fields[name].required = True

    def options(self) -> dict[str, Any]:
        """Return the options that the services take besides the files."""
        return {}

    def given(self) -> "dict[str, UploadedFile[Any] | UUID]":
        """Return the files, or the ids of their uploads, by purpose."""
        found = {
            name: self.cleaned_data.get(name) or self.cleaned_data.get(_upload_field(name))
            for name in self.file_names
        }
        return {name: file for name, file in found.items() if file is not None}


def _upload_field(name: str) -> str:
    return f"{name}_upload"


class CorpusForm(UploadForm):
    """A corpus: plain text."""

    name = _name_field()
    file = _file_field(
        "Text file",
        required=True,
        help_text="UTF-8, one text (a sentence or a paragraph) per line, or JSON lines with a field text.",
    )


class DatasetForm(UploadForm):
    """A dataset: labeled rows in one to three files."""

    name = _name_field()
    task = forms.ChoiceField(
        label="Task",
        choices=[("", "Guess from the columns"), *DATASET_TASK_CHOICES],
        required=False,
        help_text=format_html_join("", '<span data-task="{}">{}</span>', COLUMNS_HELP.items()),
        widget=forms.RadioSelect({"class": "task-choice", "data-clears": "columns preview"}),
    )
    train = _file_field(
        "Training file",
        required=True,
        help_text="JSON, JSON lines, CSV or TSV; also CoNLL for tagging and SQuAD for questions. Exports of"
        " Label Studio, doccano, Prodigy and spaCy are read as they are. If your columns have other names,"
        " choose them after the check.",
    )
    dev = _file_field("Validation file")
    test = _file_field(
        "Test file",
        help_text="Without it, 10% of the rows are held out. The same holds for validation.",
    )
    separator = forms.CharField(
        label="Label separator",
        required=False,
        max_length=3,
        help_text=f"Separates labels in a cell of a multi-label table. Default: {DEFAULT_SEPARATOR}",
    )
    allow_leaks = forms.BooleanField(
        label="Allow overlap between splits",
        required=False,
        help_text="Only for published data that you cannot change. Metrics are then marked as optimistic.",
    )

    skip_invalid_rows = forms.BooleanField(
        label="Skip invalid rows",
        required=False,
        help_text="Skips rows that cannot be read. The check shows how many.",
    )

    more = ("separator", "allow_leaks", "skip_invalid_rows")
    more_label = "More options"

    def options(self) -> dict[str, Any]:
        """Return the task, which is empty if it is to be guessed, and other options of the services."""
        cleaned = self.cleaned_data
        return {
            "task": cleaned["task"],
            "separator": cleaned["separator"] or DEFAULT_SEPARATOR,
            "allow_leaks": cleaned["allow_leaks"],
            "skip_invalid_rows": cleaned["skip_invalid_rows"],
        }


_FORMS: dict[str, type[UploadForm]] = {CheckKind.CORPUS: CorpusForm, CheckKind.DATASET: DatasetForm}


def form_of(check: UploadCheck) -> UploadForm:
    """Return the form of a check, filled with its values and uploads."""
    files = {_upload_field(purpose): key for purpose, key in check.files.items()}
    return _FORMS[check.kind](initial={"name": check.name, **check.options, **files})
