"""Parses raw rows into examples, and checks types, blanks, labels, tags and answers."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.conll import find_tag_error
from tenants.datasets.formats.examples import (
    ChatExample,
    ClassificationExample,
    Example,
    GenerationExample,
    MultilabelExample,
    QuestionAnsweringExample,
    RegressionExample,
    TaggingExample,
)
from tenants.datasets.formats.messages import messages_value
from tenants.datasets.formats.rows import RawRow
from tenants.datasets.formats.values import (
    RowContext,
    answers_value,
    kind_of,
    list_value,
    number_value,
    text_value,
)

MAX_LABEL_LENGTH = 200
DEFAULT_SEPARATOR = "|"


@dataclass(slots=True)
class RowParser:
    """Parses the rows of one dataset into examples.

    Labels are text, integers or booleans, all of the type of the dataset's first label. Either all rows have
    a second text or none has, as the first row. ``separator`` separates the labels of a multi-label row that
    is not a JSON list.
    """

    task: str
    separator: str = DEFAULT_SEPARATOR
    label_type: type | None = field(default=None, init=False)
    pairs: bool | None = field(default=None, init=False)

    def parse(self, raw: RawRow, file: str) -> Example:
        """The example of a row, or a typed error that names the row and the field."""
        parsers: dict[str, Callable[[RowContext], Example]] = {
            "classification": self._classification,
            "multilabel": self._multilabel,
            "regression": self._regression,
            "tagging": _tagging,
            "question_answering": _question_answering,
            "generation": _generation,
            "chat": _chat,
        }
        return parsers[self.task](RowContext(raw, file))

    def _classification(self, row: RowContext) -> ClassificationExample:
        text, pair = self._texts(row)
        return ClassificationExample(text, self._label(row, row.raw.fields["label"], "label"), pair)

    def _multilabel(self, row: RowContext) -> MultilabelExample:
        text, pair = self._texts(row)
        labels = [
            self._label(row, label, "labels") for label in self._split_labels(row, row.raw.fields["labels"])
        ]
        return MultilabelExample(text, tuple(dict.fromkeys(labels)), pair)

    def _regression(self, row: RowContext) -> RegressionExample:
        text, pair = self._texts(row)
        return RegressionExample(text, number_value(row, "value", row.raw.fields["value"]), pair)

    def _texts(self, row: RowContext) -> tuple[str, str | None]:
        text = text_value(row, "text", row.raw.fields["text"])
        paired = "text_pair" in row.raw.fields
        if self.pairs is None:
            self.pairs = paired
        if paired is not self.pairs:
            before = "have one" if self.pairs else "have none"
            row.fail(
                ErrorCode.MALFORMED_ROW,
                f"this row {'has' if paired else 'lacks'} a 'text_pair', while the rows before it {before}.",
                field="text_pair",
            )
        return text, text_value(row, "text_pair", row.raw.fields["text_pair"]) if paired else None

    def _split_labels(self, row: RowContext, value: Any) -> list[Any]:
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                row.fail(
                    ErrorCode.MALFORMED_ROW,
                    "'labels' starts like a list but is not valid JSON.",
                    field="labels",
                )
        if isinstance(value, str):
            return [label for label in value.split(self.separator) if label.strip()]
        if not isinstance(value, list):
            row.fail(
                ErrorCode.MIXED_TYPES,
                f"'labels' is {kind_of(value)}, not a list, nor text separated by {self.separator!r}.",
                field="labels",
            )
        return value

    def _label(self, row: RowContext, value: Any, name: str) -> str:
        if type(value) not in (str, int, bool):
            row.fail(ErrorCode.MIXED_TYPES, f"a label is text or a number, not {kind_of(value)}.", field=name)
        if self.label_type is None:
            self.label_type = type(value)
        if type(value) is not self.label_type:
            row.fail(
                ErrorCode.MIXED_TYPES,
                f"this label is {kind_of(value)}, while the labels before it are"
                f" {kind_of(self.label_type())}.",
                field=name,
            )
        label = str(value).strip() if not isinstance(value, bool) else str(value).lower()
        if not label or len(label) > MAX_LABEL_LENGTH or not label.isprintable():
            row.fail(
                ErrorCode.MALFORMED_ROW,
                f"a label is 1 to {MAX_LABEL_LENGTH} printable characters.",
                field=name,
            )
        return label


def parse_text(raw: RawRow, file: str, name: str) -> str:
    """The field as text that is not blank and can be encoded, or a typed error that names the row."""
    return text_value(RowContext(raw, file), name, raw.fields[name])


def clean_separator(separator: str) -> str:
    """The separator of the labels in a cell, or ``invalid_field``."""
    if not 1 <= len(separator) <= 3 or any(
        character.isalnum() or not character.isprintable() for character in separator
    ):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "The separator of labels is one to three characters, none of them a letter or digit.",
            param="separator",
        )
    return separator


def _tagging(row: RowContext) -> TaggingExample:
    tokens, tags = (list_value(row, name, row.raw.fields[name]) for name in ("tokens", "tags"))
    if len(tokens) != len(tags):
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"{len(tokens)} tokens but {len(tags)} tags.",
            field="tags",
            tokens=len(tokens),
            tags=len(tags),
        )
    error = find_tag_error(tags)
    if error is not None:
        row.fail(
            ErrorCode.INVALID_TAGS,
            f"tag {error.index + 1}: {error.reason}.",
            line=row.raw.line + row.raw.lines_per_item * error.index,
            field="tags",
            token=error.index + 1,
        )
    return TaggingExample(tokens=tuple(tokens), tags=tuple(tags))


def _question_answering(row: RowContext) -> QuestionAnsweringExample:
    question, context = (text_value(row, name, row.raw.fields[name]) for name in ("question", "context"))
    return QuestionAnsweringExample(question, context, answers_value(row, context, row.raw.fields["answers"]))


def _generation(row: RowContext) -> GenerationExample:
    prompt, completion = (text_value(row, name, row.raw.fields[name]) for name in ("prompt", "completion"))
    return GenerationExample(prompt, completion)


def _chat(row: RowContext) -> ChatExample:
    return ChatExample(messages_value(row, "messages", row.raw.fields["messages"]))
