"""Sentences of web pages in ten languages: the texts of Django and two packages, and their translations."""

import gettext
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from demo.splits import split_of

PACKAGES: Final = ("django", "allauth", "rest_framework")
LANGUAGES: Final = {
    "de": "German",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "sv": "Swedish",
    "tr": "Turkish",
}
ENGLISH: Final = "English"
MIN_WORDS: Final = 4
_MARKUP: Final = re.compile(r"[%{<\n\x04]")


def sentences(split: str) -> Iterator[tuple[str, str]]:
    """A sentence and its language. A sentence is in the same split as its translations."""
    original: dict[str, None] = {}
    for code, language in LANGUAGES.items():
        for source, translation in _translations(code):
            if split_of(source) == split and len(source.split()) >= MIN_WORDS and not _MARKUP.search(source):
                original[source] = None
                yield translation, language
    for source in original:
        yield source, ENGLISH


def _translations(code: str) -> Iterator[tuple[str, str]]:
    """The original texts and their translations, of all packages; plural forms are left out."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for path in sorted(Path(spec.origin).parent.glob(f"**/locale/{code}/LC_MESSAGES/*.mo")):
            with path.open("rb") as file:
                catalog: dict[object, str] = vars(gettext.GNUTranslations(file))["_catalog"]
            yield from ((source, text) for source, text in catalog.items() if isinstance(source, str))
