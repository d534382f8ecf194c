"""The labelled datasets of the demo tenants, made from docstrings."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hmi_site.demo.docstrings import PACKAGES, Docstring

MAX_WORDS: Final = 70
_NAMES: Final = r"(?:cpython|python|huggingface|hugging\s+face|scikit(?:-learn|\s+learn)?|pytorch|np|aten)"
_GIVEAWAYS: Final = re.compile(
    rf"\b(?:{'|'.join(PACKAGES)}|{_NAMES})\b|(?:{'|'.join(PACKAGES[1:])})|pytorch", re.I
)
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_HEADING: Final = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.M)
_SECTIONS: Final = ("Parameters", "Returns", "Notes", "Examples", "See Also", "References", "Raises")


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled example: a text with a label, or words with IOB2 tags."""

    text: str
    label: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DemoTask:
    """What a demo tenant teaches its model."""

    tenant: str
    hplm: str
    task: str
    under_domain: bool
    file_format: str
    examples: Callable[[Docstring], Iterator[Example]]
    train_size: int


def package_of_docstring(docstring: Docstring) -> Iterator[Example]:
    """Which package is this from? Package names, which would give it away, are masked."""
    masked = _GIVEAWAYS.sub("it", docstring.text)
    yield Example(_shorten(masked), label=docstring.package)


def section_of_paragraph(docstring: Docstring) -> Iterator[Example]:
    """Which section of a docstring is this paragraph from? The heading itself is left out."""
    parts = _HEADING.split(docstring.text)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        text = _shorten(body)
        if heading in _SECTIONS and len(text.split()) >= 5:
            yield Example(text, label=heading)


def parameter_names(docstring: Docstring) -> Iterator[Example]:
    """Which words name a parameter of the documented function? The signature is not shown."""
    yield from _tagged(docstring, docstring.parameters, "PARAMETER")


def type_names(docstring: Docstring) -> Iterator[Example]:
    """Which words name a type that the function's annotations use? The signature is not shown."""
    yield from _tagged(docstring, docstring.types, "TYPE")


TASKS: Final = (
    DemoTask("acme", "package-of-docstring", "classification", True, "jsonl", package_of_docstring, 1_800),
    DemoTask("globex", "parameter-names", "tagging", True, "conll", parameter_names, 1_500),
    DemoTask("initech", "section-of-paragraph", "classification", False, "csv", section_of_paragraph, 1_500),
    DemoTask("umbrella", "type-names", "tagging", False, "jsonl", type_names, 1_000),
)


def _tagged(docstring: Docstring, wanted: frozenset[str], label: str) -> Iterator[Example]:
    words = _WORD.findall(docstring.text)[: MAX_WORDS * 2]
    tags = tuple(f"B-{label}" if word in wanted else "O" for word in words)
    if len(set(tags)) > 1:
        yield Example(" ".join(words), tags=tags)


def _shorten(text: str) -> str:
    return " ".join(text.split()[:MAX_WORDS])


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


def write_examples(examples: Iterable[Example], file_format: str) -> bytes:
    """The examples as an upload in one of the formats that tenants use: jsonl, csv or conll."""
    if file_format == "csv":
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer)
        writer.writerow(("text", "label"))
        writer.writerows((example.text, example.label) for example in examples)
        return buffer.getvalue().encode()
    if file_format == "conll":
        return "\n".join(map(_conll_block, examples)).encode()
    return "".join(json.dumps(_as_object(example)) + "\n" for example in examples).encode()


def _conll_block(example: Example) -> str:
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(example.text.split(), example.tags, strict=True))


def _as_object(example: Example) -> dict[str, object]:
    if example.tags:
        return {"tokens": example.text.split(), "tags": list(example.tags)}
    return {"text": example.text, "label": example.label}
