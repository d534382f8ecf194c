"""The labelled datasets of the demo tenants."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from demo import appointments, prose, translations
from demo.docstrings import PACKAGES, docstrings

MIN_WORDS, MAX_WORDS = 5, 40
_NAMES: Final = r"(?:cpython|python|huggingface|hugging\s+face|scikit(?:-learn|\s+learn)?|pytorch|np|aten)"
_GIVEAWAYS: Final = re.compile(
    rf"\b(?:{'|'.join(PACKAGES)}|{_NAMES})\b|(?:{'|'.join(PACKAGES[1:])})|pytorch", re.I
)


@dataclass(frozen=True, slots=True)
class Example:
    """A text with a label or a value, words with IOB2 tags, or a text with the answer to write."""

    text: str
    label: str = ""
    value: float | None = None
    tags: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class DemoTask:
    """What a demo tenant teaches its model.

    examples: those of a split. about: what the model does, from which data, by which rule. try_text: a text
    to try it with.
    """

    tenant: str
    hplm: str
    task: str
    under_domain: bool
    file_format: str
    examples: Callable[[str], Iterable[Example]]
    train_size: int
    about: str
    try_text: str


def languages(split: str) -> Iterator[Example]:
    """Which language is this sentence in?"""
    for text, language in translations.sentences(split):
        yield Example(text, label=language)


def appointment_words(split: str) -> Iterator[Example]:
    """Which words name a person, a place or a time?"""
    for words in appointments.sentences(split):
        yield Example(" ".join(word for word, _ in words), tags=tuple(tag for _, tag in words))


def reading_ease(split: str) -> Iterator[Example]:
    """How easy is this sentence to read?"""
    for sentence, ease in prose.sentences(split):
        yield Example(sentence, value=ease)


def library(split: str) -> Iterator[Example]:
    """Which package is this docstring from?"""
    for docstring in docstrings(split):
        words = without_names(docstring.summary).split()
        if len(words) >= MIN_WORDS:
            yield Example(" ".join(words[:MAX_WORDS]), label=docstring.package)


def without_names(text: str) -> str:
    """The text without the names of packages, which would give them away."""
    return _GIVEAWAYS.sub("it", text)


TASKS: Final = (
    DemoTask(
        "acme",
        "language",
        "classification",
        False,
        "jsonl",
        languages,
        1_000,
        about="Says which of ten languages a sentence is in; the sentences are texts of Django, two of its "
        "packages, and their translations.",
        try_text="Veuillez saisir votre adresse e-mail et votre mot de passe.",
    ),
    DemoTask(
        "globex",
        "appointments",
        "tagging",
        False,
        "conll",
        appointment_words,
        800,
        about="Finds persons, places and times in sentences about appointments, which are made by rule.",
        try_text="Remind me to call Sophie in Amsterdam next Friday at 9 am.",
    ),
    DemoTask(
        "initech",
        "library",
        "classification",
        True,
        "csv",
        library,
        800,
        about="Says which Python package a docstring is from; names of packages in it are masked.",
        try_text="Return the mean of the array elements along the given axis.",
    ),
    DemoTask(
        "umbrella",
        "reading-ease",
        "regression",
        False,
        "csv",
        reading_ease,
        1_200,
        about="Predicts how easy a sentence is to read, from 0 to 100; it learns from the values that "
        "Flesch's formula gives to sentences of package descriptions.",
        try_text="The cat sat on the mat and looked at the birds in the garden.",
    ),
)


def sample_evenly(examples: Iterable[Example], size: int) -> list[Example]:
    """At most ``size`` examples in their order, no label taking more than an equal share of the rest."""
    by_label: dict[str, list[int]] = {}
    listed = list(examples)
    for position, example in enumerate(listed):
        by_label.setdefault(example.label, []).append(position)
    chosen: list[int] = []
    waiting = sorted(by_label.values(), key=len)
    while waiting:
        positions = waiting.pop(0)
        chosen += positions[: (size - len(chosen)) // (len(waiting) + 1)]
    return [listed[position] for position in sorted(chosen)]


def write_examples(examples: Iterable[Example], file_format: str, task: str = "") -> bytes:
    """The examples as an upload in one of the formats that tenants use: jsonl, csv or conll.

    ``task`` says whether those with an answer are conversations ("chat") or prompts with completions.
    """
    if file_format == "conll":
        return "\n".join(map(_conll_block, examples)).encode()
    rows = [_as_object(example, task) for example in examples]
    if file_format == "csv":
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
        return buffer.getvalue().encode()
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _conll_block(example: Example) -> str:
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(example.text.split(), example.tags, strict=True))


def _as_object(example: Example, task: str) -> dict[str, object]:
    if task == "chat":
        question = {"role": "user", "content": example.text}
        return {"messages": [question, {"role": "assistant", "content": example.answer}]}
    if example.answer:
        return {"prompt": example.text, "completion": example.answer}
    if example.tags:
        return {"tokens": example.text.split(), "tags": list(example.tags)}
    if example.value is not None:
        return {"text": example.text, "value": example.value}
    return {"text": example.text, "label": example.label}
