"""Parses raw rows into examples, and checks types, blanks, labels, tags and answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.conll import TagError, clean_tags
from tenants.datasets.formats.examples import (
    ChatExample,
    ClassificationExample,
    Example,
    GenerationExample,
    Message,
    MultilabelExample,
    QuestionAnsweringExample,
    RegressionExample,
    TaggingExample,
)
from tenants.datasets.formats.messages import messages_value
from tenants.datasets.formats.normalization import clean_label, parse_list
from tenants.datasets.formats.rows import RawRow
from tenants.datasets.formats.spans import parse_spans, tag_tokens, tag_words
from tenants.datasets.formats.tool_exports import HISTORY, INSTRUCTION_INPUTS, SYSTEM, TOOLS
from tenants.datasets.formats.values import (
    RowContext,
    answers_value,
    has_value,
    kind_of,
    labels_value,
    list_value,
    number_value,
    text_value,
)

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
        labels = labels_value(row, "label", row.raw.fields["label"], None)
        if len(labels) != 1:
            row.fail(
                ErrorCode.MALFORMED_ROW,
                f"this row has {len(labels)} labels, where classification has one. The task multilabel has"
                " several or none.",
                field="label",
            )
        return ClassificationExample(text, self._label(row, labels[0], "label"), pair)

    def _multilabel(self, row: RowContext) -> MultilabelExample:
        text, pair = self._texts(row)
        found = labels_value(row, "labels", row.raw.fields["labels"], self.separator)
        labels = [self._label(row, label, "labels") for label in found]
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

    def _label(self, row: RowContext, value: Any, name: str) -> str:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # pandas writes whole numbers so, if some are missing
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
        try:
            return clean_label(str(value).lower() if isinstance(value, bool) else str(value))
        except ValueError as error:
            shown = ascii(value)[:60]
            row.fail(ErrorCode.MALFORMED_ROW, f"the label {shown} is not valid: {error}.", field=name)


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
    tokens, tags = _tokens_and_tags(row)
    if len(tokens) != len(tags):
        if isinstance(row.raw.fields["tags"], str) and isinstance(clean_tags(tags), TagError):
            row.fail(
                ErrorCode.MISSING_COLUMN,
                "no column 'tags' with a tag for each token; the text has one label. Choose the task"
                " classification, or map the column of the tags.",
                field="tags",
            )
        row.fail(
            ErrorCode.MALFORMED_ROW,
            f"{len(tokens)} tokens but {len(tags)} tags.",
            field="tags",
            tokens=len(tokens),
            tags=len(tags),
        )
    cleaned = clean_tags(tags)
    if isinstance(cleaned, TagError):
        row.fail(
            ErrorCode.INVALID_TAGS,
            f"tag {cleaned.index + 1}: {cleaned.reason}.",
            line=row.raw.line + row.raw.lines_per_item * cleaned.index,
            field="tags",
            token=cleaned.index + 1,
        )
    return TaggingExample(tokens=tuple(tokens), tags=tuple(cleaned))


def _tokens_and_tags(row: RowContext) -> tuple[list[str], list[str]]:
    """The tokens and tags of the row, or those of its text or tokens and their spans."""
    tokens, tags = row.raw.fields["tokens"], row.raw.fields["tags"]
    listed = parse_list(tags) if isinstance(tags, str) else tags
    if isinstance(listed, list) and listed and all(type(tag) is int for tag in listed):
        row.fail(
            ErrorCode.INVALID_TAGS,
            "the tags are numbers, whose names this file does not have. Write the names, in Hugging Face"
            " datasets by features['ner_tags'].feature.int2str.",
            field="tags",
        )
    try:
        if isinstance(tokens, str) and _are_spans(listed):
            text = text_value(row, "tokens", tokens)
            found = tag_words(text, parse_spans(text, listed))
        elif isinstance(tokens, list) and tokens and isinstance(tokens[0], dict) and _are_spans(listed):
            found = tag_tokens(tokens, listed)
        else:
            return list_value(row, "tokens", tokens), list_value(row, "tags", tags)
    except ValueError as error:
        row.fail(ErrorCode.MALFORMED_ROW, f"{error}.", field="tags")
    if not found[0]:
        row.fail(ErrorCode.EMPTY_TEXT, "the text has no word.", field="tokens")
    return found


def _are_spans(found: Any) -> TypeGuard[list[Any]]:
    return isinstance(found, list) and all(isinstance(span, dict | list) for span in found)


def _question_answering(row: RowContext) -> QuestionAnsweringExample:
    question, context = (text_value(row, name, row.raw.fields[name]) for name in ("question", "context"))
    return QuestionAnsweringExample(question, context, answers_value(row, context, row.raw.fields["answers"]))


def _generation(row: RowContext) -> GenerationExample:
    completion = row.raw.fields["completion"]
    if isinstance(completion, list) and len(completion) == 1:
        completion = completion[0]  # annotation tools write a list, since annotators may write several
    for name in (SYSTEM, HISTORY):
        if has_value(row, name):
            row.fail(
                ErrorCode.MALFORMED_ROW,
                f"{name!r} cannot be learned by the task generation. Write messages, for the task chat.",
                field=name,
            )
    inputs = [name for name in INSTRUCTION_INPUTS if has_value(row, name)]
    prompts = [text_value(row, name, row.raw.fields[name]) for name in ("prompt", *inputs)]
    return GenerationExample("\n".join(prompts), text_value(row, "completion", completion))


def _chat(row: RowContext) -> ChatExample:
    messages = messages_value(row, "messages", row.raw.fields["messages"])
    if has_value(row, TOOLS):
        row.fail(ErrorCode.MALFORMED_ROW, "tools cannot be learned: leave them out.", field=TOOLS)
    if has_value(row, SYSTEM):
        messages = (Message(SYSTEM, text_value(row, SYSTEM, row.raw.fields[SYSTEM])), *messages)
    return ChatExample(messages)
