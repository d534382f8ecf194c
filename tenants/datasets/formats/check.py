"""From raw rows to examples: types, blanks, labels, tags and answers."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.conll import find_fault
from tenants.datasets.formats.examples import (
    AnswerExample,
    Example,
    LabelsExample,
    TagExample,
    TextExample,
    ValueExample,
)
from tenants.datasets.formats.rows import RawRow
from tenants.datasets.formats.values import At, answers_value, kind_of, list_value, number_value, text_value

LONGEST_LABEL = 200
DEFAULT_SEPARATOR = "|"


@dataclass(slots=True)
class RowChecker:
    """Turns the rows of one dataset into examples.

    Labels may be text, whole numbers or truth values, but all of one type; the first label of the dataset
    decides. Either all rows have a second text or none; the first row decides. ``separator`` parts the labels
    of a multi-label row that is no JSON list.
    """

    task: str
    separator: str = DEFAULT_SEPARATOR
    label_type: type | None = field(default=None, init=False)
    pairs: bool | None = field(default=None, init=False)

    def example(self, raw: RawRow, file: str) -> Example:
        """The checked example, or a typed error that names the row and the field."""
        made: dict[str, Callable[[At], Example]] = {
            "classification": self._one_label,
            "multilabel": self._all_labels,
            "regression": self._value,
            "tagging": _tagged,
            "question_answering": _answered,
        }
        return made[self.task](At(raw, file))

    def _one_label(self, at: At) -> TextExample:
        text, pair = self._texts(at)
        return TextExample(text, self._label(at, at.raw.fields["label"], "label"), pair)

    def _all_labels(self, at: At) -> LabelsExample:
        text, pair = self._texts(at)
        labels = [self._label(at, label, "labels") for label in self._parted(at, at.raw.fields["labels"])]
        return LabelsExample(text, tuple(dict.fromkeys(labels)), pair)

    def _value(self, at: At) -> ValueExample:
        text, pair = self._texts(at)
        return ValueExample(text, number_value(at, "value", at.raw.fields["value"]), pair)

    def _texts(self, at: At) -> tuple[str, str | None]:
        text = text_value(at, "text", at.raw.fields["text"])
        paired = "text_pair" in at.raw.fields
        if self.pairs is None:
            self.pairs = paired
        if paired is not self.pairs:
            begun = "have one" if self.pairs else "have none"
            at.fail(
                ErrorCode.MALFORMED_ROW,
                f"this row {'has' if paired else 'lacks'} a 'text_pair', while the rows before it {begun}.",
                field="text_pair",
            )
        return text, text_value(at, "text_pair", at.raw.fields["text_pair"]) if paired else None

    def _parted(self, at: At, value: Any) -> list[Any]:
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                at.fail(ErrorCode.MALFORMED_ROW, "'labels' begins as a list but is no JSON.", field="labels")
        if isinstance(value, str):
            return [label for label in value.split(self.separator) if label.strip()]
        if not isinstance(value, list):
            at.fail(
                ErrorCode.MIXED_TYPES,
                f"'labels' is {kind_of(value)}, not a list or text parted by {self.separator!r}.",
                field="labels",
            )
        return value

    def _label(self, at: At, value: Any, name: str) -> str:
        if type(value) not in (str, int, bool):
            at.fail(ErrorCode.MIXED_TYPES, f"a label is text or a number, not {kind_of(value)}.", field=name)
        if self.label_type is None:
            self.label_type = type(value)
        if type(value) is not self.label_type:
            at.fail(
                ErrorCode.MIXED_TYPES,
                f"this label is {kind_of(value)}, while the labels before it are"
                f" {kind_of(self.label_type())}.",
                field=name,
            )
        label = str(value).strip() if not isinstance(value, bool) else str(value).lower()
        if not label or len(label) > LONGEST_LABEL or not label.isprintable():
            at.fail(
                ErrorCode.MALFORMED_ROW, f"a label is 1 to {LONGEST_LABEL} printable characters.", field=name
            )
        return label


def checked_text(raw: RawRow, file: str, name: str) -> str:
    """The field as text that is neither blank nor beyond UTF-8, or a typed error that names the row."""
    return text_value(At(raw, file), name, raw.fields[name])


def checked_separator(separator: str) -> str:
    """What parts the labels of a cell, or ``invalid_field``."""
    if not 1 <= len(separator) <= 3 or any(sign.isalnum() or not sign.isprintable() for sign in separator):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "The separator of labels is one to three signs, none of them a letter or digit.",
            param="separator",
        )
    return separator


def _tagged(at: At) -> TagExample:
    tokens, tags = (list_value(at, name, at.raw.fields[name]) for name in ("tokens", "tags"))
    if len(tokens) != len(tags):
        at.fail(
            ErrorCode.MALFORMED_ROW,
            f"{len(tokens)} tokens but {len(tags)} tags.",
            field="tags",
            tokens=len(tokens),
            tags=len(tags),
        )
    fault = find_fault(tags)
    if fault is not None:
        at.fail(
            ErrorCode.INVALID_TAGS,
            f"tag {fault.index + 1}: {fault.why}.",
            line=at.raw.line + at.raw.lines_per_item * fault.index,
            field="tags",
            token=fault.index + 1,
        )
    return TagExample(tokens=tuple(tokens), tags=tuple(tags))


def _answered(at: At) -> AnswerExample:
    question, context = (text_value(at, name, at.raw.fields[name]) for name in ("question", "context"))
    return AnswerExample(question, context, answers_value(at, context, at.raw.fields["answers"]))
