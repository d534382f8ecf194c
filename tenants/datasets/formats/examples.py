"""Examples of a dataset, one class for each task, and their canonical form: one JSON object a line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINE_ENDS_INSIDE = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""JSON does not escape these, but some readers take them for line ends."""


def json_line(fields: dict[str, Any]) -> str:
    """A line of canonical JSON with its line end, and no other line end in it."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).translate(LINE_ENDS_INSIDE) + "\n"


@dataclass(frozen=True, slots=True)
class ClassificationExample:
    """A text, or two, and its label."""

    text: str
    label: str
    pair: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return _one_or_two(self.text, self.pair)

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)

    @property
    def answer(self) -> str:
        return self.label

    def to_line(self) -> str:
        return json_line({**_text_fields(self.text, self.pair), "label": self.label})


@dataclass(frozen=True, slots=True)
class MultilabelExample:
    """A text, or two, and its labels: several, one or none, each once."""

    text: str
    labels: tuple[str, ...]
    pair: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return _one_or_two(self.text, self.pair)

    @property
    def answer(self) -> str:
        return "\0".join(sorted(self.labels))

    def to_line(self) -> str:
        return json_line({**_text_fields(self.text, self.pair), "labels": list(self.labels)})


@dataclass(frozen=True, slots=True)
class RegressionExample:
    """A text, or two, and a number."""

    text: str
    value: float
    pair: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return _one_or_two(self.text, self.pair)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def answer(self) -> str:
        return repr(self.value)

    def to_line(self) -> str:
        return json_line({**_text_fields(self.text, self.pair), "value": self.value})


@dataclass(frozen=True, slots=True)
class TaggingExample:
    """Tokens and their IOB2 tags, one for each token."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return (" ".join(self.tokens),)

    @property
    def labels(self) -> tuple[str, ...]:
        """The kind of each span, in order."""
        return tuple(tag[2:] for tag in self.tags if tag.startswith("B-"))

    @property
    def answer(self) -> str:
        return " ".join(self.tags)

    def to_line(self) -> str:
        return json_line({"tokens": list(self.tokens), "tags": list(self.tags)})


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """A span of a context. ``start`` counts characters from 0."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QuestionAnsweringExample:
    """A question, a context, and the answers in it. No answers if the context has none."""

    question: str
    context: str
    answers: tuple[SpanAnswer, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.question, self.context)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def answer(self) -> str:
        return "\0".join(sorted({answer.text for answer in self.answers}))

    def to_line(self) -> str:
        answers = [{"text": answer.text, "start": answer.start} for answer in self.answers]
        return json_line({"question": self.question, "context": self.context, "answers": answers})


@dataclass(frozen=True, slots=True)
class GenerationExample:
    """A prompt, and the completion that a model learns to write right after it. Both keep their spaces."""

    prompt: str
    completion: str

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.prompt,)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def answer(self) -> str:
        return self.completion

    def to_line(self) -> str:
        return json_line({"prompt": self.prompt, "completion": self.completion})


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. ``learned`` is false for an assistant's message with a weight of 0."""

    role: str
    content: str
    learned: bool = True

    def to_json(self) -> dict[str, Any]:
        """The message as JSON, with its weight only where that is 0."""
        return {"role": self.role, "content": self.content, **({} if self.learned else {"weight": 0})}


@dataclass(frozen=True, slots=True)
class ChatExample:
    """A conversation. A model learns to write the assistant's messages, of which the last ends it."""

    messages: tuple[Message, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return ("\n".join(message.content for message in self.messages[:-1]),)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def answer(self) -> str:
        return self.messages[-1].content

    def to_line(self) -> str:
        return json_line({"messages": [message.to_json() for message in self.messages]})


GenerativeExample = GenerationExample | ChatExample
Example = (
    ClassificationExample
    | MultilabelExample
    | RegressionExample
    | TaggingExample
    | QuestionAnsweringExample
    | GenerativeExample
)
"""Each has ``texts`` (what the model reads), ``labels``, ``answer`` (for comparison) and ``to_line``."""


def _one_or_two(text: str, pair: str | None) -> tuple[str, ...]:
    return (text,) if pair is None else (text, pair)


def _text_fields(text: str, pair: str | None) -> dict[str, str]:
    return {"text": text} if pair is None else {"text": text, "text_pair": pair}


def example_from_line(line: str) -> Example:
    """Parse a line that ``to_line`` wrote."""
    fields = json.loads(line)
    if "tokens" in fields:
        return TaggingExample(tokens=tuple(fields["tokens"]), tags=tuple(fields["tags"]))
    if "question" in fields:
        answers = tuple(SpanAnswer(**answer) for answer in fields["answers"])
        return QuestionAnsweringExample(fields["question"], fields["context"], answers)
    if "prompt" in fields:
        return GenerationExample(fields["prompt"], fields["completion"])
    if "messages" in fields:
        return ChatExample(tuple(_message(**message) for message in fields["messages"]))
    text, pair = fields["text"], fields.get("text_pair")
    if "labels" in fields:
        return MultilabelExample(text, tuple(fields["labels"]), pair)
    if "value" in fields:
        return RegressionExample(text, fields["value"], pair)
    return ClassificationExample(text, fields["label"], pair)


def _message(role: str, content: str, weight: int = 1) -> Message:
    return Message(role, content, bool(weight))


def read_examples(path: Path) -> Iterator[Example]:
    """The examples of a canonical file, in order."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield example_from_line(line)
