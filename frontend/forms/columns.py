"""Which column of a dataset's files is which, chosen among those they have once a check has read them."""

from collections.abc import Mapping

from django import forms

from tenants.datasets.formats.columns import ColumnsFound, task_columns
from tenants.datasets.models import UploadCheck

LABELS = {
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
}
OF_PAIRS = {
    "text": "First text",
    "label": "Label of the pair",
    "labels": "Labels of the pair",
    "value": "Value of the pair",
}


class ColumnsForm(forms.Form):
    """A choice for each canonical column of the task of a check; what was read stands chosen."""

    use_required_attribute = False

    def __init__(self, check: UploadCheck, found: ColumnsFound) -> None:
        super().__init__()
        given = check.options.get("columns") or {}
        names = task_columns(check.options["task"])
        paired = "text_pair" in found.usual or "text_pair" in given
        for name in names:
            usual = found.usual.get(name)
            chosen = given.get(name, "")
            self.fields[_field(name)] = forms.CharField(
                label=(OF_PAIRS if paired else {}).get(name, LABELS[name]),
                required=name != "text_pair",
                initial=chosen if chosen in found.examples else "",
                widget=forms.Select(choices=_offered(name, usual, found.examples)),
            )


def columns_chosen(data: Mapping[str, str], task: str) -> dict[str, str]:
    """Canonical column -> the file's, for those of the task that shall not be read by their usual name."""
    chosen = {name: data.get(_field(name), "") for name in task_columns(task)}
    return {name: column for name, column in chosen.items() if column}


def _field(name: str) -> str:
    return f"column_{name}"


def _offered(name: str, usual: str | None, examples: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is read where nobody chooses stands first, and has no value: choosing it is choosing nothing."""
    none = "none" if name == "text_pair" else "Choose…"
    first = ("", none if usual is None else _told(usual, examples))
    return [first, *((column, _told(column, examples)) for column in examples if column != usual)]


def _told(column: str, examples: Mapping[str, str]) -> str:
    example = examples.get(column)
    return f"{column} ({example})" if example else column
