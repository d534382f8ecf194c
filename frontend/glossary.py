"""The terms of the product, each with one sentence and a chapter. Read from glossary.toml."""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from django.urls import reverse

FILE: Final = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the product. `chapter` is a file of `docs/` without its ending, and may have an anchor."""

    word: str
    meaning: str
    chapter: str

    @property
    def anchor(self) -> str:
        """Return the anchor on the page of the glossary."""
        return self.word.lower().replace(" ", "-")

    @property
    def url(self) -> str:
        """Return the address of the chapter that says more."""
        name, mark, anchor = self.chapter.partition("#")
        return reverse("frontend:help_chapter", args=[name]) + mark + anchor


@lru_cache
def all_terms() -> tuple[Term, ...]:
    """Return all terms in alphabetical order."""
    found = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return tuple(
        Term(word, **fields) for word, fields in sorted(found.items(), key=lambda item: item[0].lower())
    )


def terms_found(words: str) -> list[Term]:
    """Return the terms in which each of the words, or its singular, begins a word. The term that is the
    whole search comes first."""
    wanted = words.lower().split()
    found = [term for term in all_terms() if wanted and all(_begins(term, word) for word in wanted)]
    return sorted(found, key=lambda term: term.word.lower() != " ".join(wanted))


def _begins(term: Term, word: str) -> bool:
    parts = term.word.lower().split()
    return any(part.startswith(word) or word in (f"{part}s", f"{part}es") for part in parts)


def term_of(word: str) -> Term:
    """Return a term, whatever its case. Raises KeyError."""
    return {term.word.lower(): term for term in all_terms()}[word.lower()]
