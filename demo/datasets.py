"""The labelled datasets of the demo tenants, made from docstrings."""

import csv
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from demo.docstrings import PACKAGES, Docstring

MAX_WORDS: Final = 70


MAX_TAGGED_WORDS: Final = 120


MIN_TAGGED_NAMES: Final = 2


_NAMES: Final = r"(?:cpython|python|huggingface|hugging\s+face|scikit(?:-learn|\s+learn)?|pytorch|np|aten)"


_GIVEAWAYS: Final = re.compile(
    rf"\b(?:{'|'.join(PACKAGES)}|{_NAMES})\b|(?:{'|'.join(PACKAGES[1:])})|pytorch", re.I
)


_WORD: Final = re.compile(r"\w+|[^\w\s]")


# NumPy: `axis : int, optional`, described on indented lines. Google: `axis (int, optional): ...`.
_DECLARATIONS: Final = (
    re.compile(
        r"^\*{0,2}\w+(?:, \*{0,2}\w+)* : (\S[^\n]*?)(?:,? (?:optional|default)[^\n]*)?(?=\n +\S)", re.M
    ),
    re.compile(r"^ +\*{0,2}\w+ \((\S[^\n]*?)(?:,? \*?(?:optional|default)[^\n]*)?\):", re.M),
)


_HEADING: Final = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.M)


_SECTIONS: Final = ("Parameters", "Returns", "Notes", "Examples", "See Also", "References", "Raises")


@dataclass(frozen=True, slots=True)
class Example:
    """One example: a text with a label, words with IOB2 tags, or a text with the answer to write."""

    text: str
    label: str = ""
    tags: tuple[str, ...] = ()
    answer: str = ""

    @property
    def compared_text(self) -> str:
        """Where near copies are looked for: the answer if there is one, which is what is learned."""
        return self.answer or self.text


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
    words = _WORD.findall(docstring.text)[:MAX_TAGGED_WORDS]
    names = frozenset(docstring.parameters)
    if len(names.intersection(words)) >= MIN_TAGGED_NAMES:
        tags = tuple("B-PARAMETER" if word in names else "O" for word in words)
        yield Example(" ".join(words), tags=tags)


def declared_types(docstring: Docstring) -> Iterator[Example]:
    """Which words say what type a parameter has? Known from the lines that declare one."""
    spans = [found.span(1) for pattern in _DECLARATIONS for found in pattern.finditer(docstring.text)]
    words = list(islice(_WORD.finditer(docstring.text), MAX_TAGGED_WORDS))
    tags = tuple(_tag_at(word.start(), spans, "TYPE") for word in words)
    if sum(tag.startswith("B-") for tag in tags) >= MIN_TAGGED_NAMES:
        yield Example(" ".join(word.group() for word in words), tags=tags)


TASKS: Final = (
    DemoTask("acme", "package-of-docstring", "classification", True, "jsonl", package_of_docstring, 1_000),
    DemoTask("globex", "parameter-names", "tagging", True, "conll", parameter_names, 800),
    DemoTask("initech", "section-of-paragraph", "classification", False, "csv", section_of_paragraph, 800),
    DemoTask("umbrella", "declared-types", "tagging", False, "jsonl", declared_types, 700),
)


def _tag_at(position: int, spans: Iterable[tuple[int, int]], label: str) -> str:
    for start, end in spans:
        if start <= position < end:
            return f"B-{label}" if position == start else f"I-{label}"
    return "O"


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


def write_examples(examples: Iterable[Example], file_format: str, task: str = "") -> bytes:
    """The examples as an upload in one of the formats that tenants use: jsonl, csv or conll.

    ``task`` says whether those with an answer are conversations ("chat") or prompts with completions.
    """
    if file_format == "csv":
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer)
        writer.writerow(("text", "label"))
        writer.writerows((example.text, example.label) for example in examples)
        return buffer.getvalue().encode()
    if file_format == "conll":
        return "\n".join(map(_conll_block, examples)).encode()
    return "".join(json.dumps(_as_object(example, task)) + "\n" for example in examples).encode()


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
    return {"text": example.text, "label": example.label}


SPLITS: Final = ("train", "dev", "test")


_SHARES: Final = (0.8, 0.1, 0.1)


_SHINGLE_WORDS: Final = 4


_BANDS: Final = 12


_ROWS_PER_BAND: Final = 2


_PRIME: Final = (1 << 31) - 1


def assign_splits(texts: Sequence[str]) -> list[str]:
    """A split for each text, the same for all texts that are copies or near copies of each other.

    Near copies are found by MinHash with banding: two texts that share about three quarters of their
    shingles of four words meet in some band with probability above 0.99, and everything that is
    connected by such meetings goes to one split.
    """
    groups = near_copy_groups(texts)
    first: dict[int, str] = {}
    for group, text in zip(groups, texts, strict=True):
        first.setdefault(int(group), text)
    thresholds = np.cumsum(_SHARES)
    chosen = {
        group: SPLITS[int(np.searchsorted(thresholds, zlib.crc32(text.encode()) / 2**32, side="right"))]
        for group, text in first.items()
    }
    return [chosen[int(group)] for group in groups]


def near_copy_groups(texts: Sequence[str]) -> NDArray[np.int32]:
    """The number of the group of near copies that each text belongs to, shape ``[len(texts)]``."""
    signatures = np.stack([_min_hashes(text) for text in texts])
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    offset = 0
    for band in range(_BANDS):
        part = signatures[:, band * _ROWS_PER_BAND : (band + 1) * _ROWS_PER_BAND]
        _, bucket = np.unique(part, axis=0, return_inverse=True)
        rows.append(np.arange(len(texts)))
        columns.append(bucket.reshape(-1) + offset)
        offset += int(bucket.max()) + 1
    row, column = np.concatenate(rows), np.concatenate(columns) + len(texts)
    size = len(texts) + offset
    edges = coo_matrix((np.ones(len(row), dtype=np.int8), (row, column)), shape=(size, size))
    _, groups = connected_components(edges, directed=False)
    return np.asarray(groups[: len(texts)], dtype=np.int32)


def _min_hashes(text: str) -> NDArray[np.int64]:
    words = re.findall(r"\w+", text.lower())
    count = max(1, len(words) - _SHINGLE_WORDS + 1)
    shingles = {" ".join(words[i : i + _SHINGLE_WORDS]) for i in range(count)}
    hashes = np.array([zlib.crc32(shingle.encode()) % _PRIME for shingle in shingles], dtype=np.int64)
    return np.asarray(((hashes[:, None] * _MULTIPLIERS + _OFFSETS) % _PRIME).min(axis=0), dtype=np.int64)


_GENERATOR = np.random.default_rng(20240607)


_MULTIPLIERS = _GENERATOR.integers(1, _PRIME, _BANDS * _ROWS_PER_BAND, dtype=np.int64)


_OFFSETS = _GENERATOR.integers(0, _PRIME, _BANDS * _ROWS_PER_BAND, dtype=np.int64)
