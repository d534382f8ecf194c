"""General English on every machine: Python's help topics and the descriptions of installed packages."""

import re
from collections.abc import Iterator
from email.message import Message
from functools import cache
from importlib.metadata import distributions
from pydoc_data.topics import topics
from typing import Final, cast

from demo.splits import split_of, without_near_copies

MIN_WORDS: Final = 8
VERY_EASY, VERY_HARD = 100.0, 0.0
_SENTENCE: Final = re.compile(r"(?<!\S)[A-Z][a-z][^.:!?`*<>|\\_=(){}\[\]\"/#]{20,160}\.(?=\s|$)")
_SYLLABLES: Final = re.compile(r"[aeiouy]+")


@cache
def paragraphs() -> tuple[str, ...]:
    """Different paragraphs of at least `MIN_WORDS` words."""
    texts = list(topics.values())
    texts += [str(cast("Message", found.metadata).get_payload() or "") for found in distributions()]
    found = (" ".join(part.split()) for text in texts for part in text.split("\n\n"))
    return tuple(dict.fromkeys(part for part in found if len(part.split()) >= MIN_WORDS))


def sentences(split: str) -> Iterator[tuple[str, float]]:
    """A sentence without markup, and its reading ease."""
    found = (match.group() for paragraph in paragraphs() for match in _SENTENCE.finditer(paragraph))
    for sentence in without_near_copies(found, str):
        if split_of(sentence) == split:
            yield sentence, reading_ease(sentence)


def reading_ease(sentence: str) -> float:
    """Flesch's reading ease of one sentence, from 0 (very hard) to 100 (very easy): it falls with the number
    of words, and with the syllables of a word. A syllable is a group of vowels."""
    words = re.findall(r"[a-z]+", sentence.lower())
    syllables = sum(max(1, len(_SYLLABLES.findall(re.sub(r"e$", "", word)))) for word in words)
    ease = 206.835 - 1.015 * len(words) - 84.6 * syllables / len(words)
    return round(min(VERY_EASY, max(VERY_HARD, ease)), 1)
