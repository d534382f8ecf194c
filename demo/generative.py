"""What the demo's generative models learn to write, made from docstrings."""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from demo.datasets import TASKS, DemoTask, Example
from demo.docstrings import Docstring, docstrings

QUESTIONS_PER_DOCSTRING: Final = 2


_SENTENCE: Final = re.compile(r"[A-Z][^.:`*<>|\\]{15,120}\.(?=\s|$)")


# As in `_DECLARATIONS` of `demo.datasets`, with the name, and what is said of the parameter.
_DESCRIPTIONS: Final = (
    re.compile(r"^\*{0,2}(\w+) : \S[^\n]*\n((?: +\S[^\n]*\n?)+)", re.M),
    re.compile(r"^ +(\w+) \(\S[^\n]*\): *\n? *(\S[^\n]*\n?(?: {6,}\S[^\n]*\n?)*)", re.M),
)


def description_of_function(docstring: Docstring) -> Iterator[Example]:
    """Facts of a function's signature, and the sentence that describes the function."""
    sentence = _first_sentence(docstring.text)
    if sentence and docstring.parameters and not docstring.name.startswith("__"):
        parameters = ", ".join(docstring.parameters)
        facts = f"name[{docstring.name}], package[{docstring.package}], parameters[{parameters}]\n"
        yield Example(facts, answer=sentence)


def meaning_of_parameter(docstring: Docstring) -> Iterator[Example]:
    """A question about a parameter, answered in the style of a reference: briefly, and no more."""
    found = (match for pattern in _DESCRIPTIONS for match in pattern.finditer(docstring.text))
    described = ((match.group(1), _first_sentence(match.group(2))) for match in found)
    known = ((name, sentence) for name, sentence in described if sentence and name in docstring.parameters)
    for name, sentence in islice(known, QUESTIONS_PER_DOCSTRING):
        question = f"What is the parameter {name} of {docstring.name} in {docstring.package}?"
        yield Example(question, answer=sentence)


def of_docstrings(examples: Callable[[Docstring], Iterator[Example]]) -> Callable[[str], Iterator[Example]]:
    """The examples of the docstrings of a split."""
    return lambda split: chain.from_iterable(map(examples, docstrings(split)))


WRITING_TASKS: Final = (
    DemoTask(
        "hooli",
        "describe-function",
        "generation",
        False,
        "jsonl",
        of_docstrings(description_of_function),
        120,
        about="Describes a function from the facts of its signature.",
        try_text="name[mean], package[numpy], parameters[values, axis]\n",
    ),
    DemoTask(
        "vandelay",
        "explain-parameter",
        "chat",
        False,
        "jsonl",
        of_docstrings(meaning_of_parameter),
        120,
        about="Explains a parameter in the style of a reference.",
        try_text="What is the parameter axis of mean in numpy?",
    ),
)


def demo_tasks(*, generative: bool) -> tuple[DemoTask, ...]:
    """What the models of the demo are taught."""
    return (*TASKS, *WRITING_TASKS) if generative else TASKS


def _first_sentence(text: str) -> str:
    """The first sentence of a text, "" if it has none without markup."""
    found = _SENTENCE.match(" ".join(text.split()))
    return found.group() if found else ""
