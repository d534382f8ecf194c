"""Sentences of web pages in ten languages: the texts of Django and two packages, and their translations."""

import gettext
import importlib.util
import re
from functools import cache
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


@cache
def sentences(split: str) -> tuple[tuple[str, str], ...]:
    """Sentences and their languages. A sentence is in the same split as its translations."""
    found = [
        (source, translation, language)
        for code, language in LANGUAGES.items()
        for source, translation in _translations(code)
        if len(source.split()) >= MIN_WORDS and not _MARKUP.search(source) and split_of(source) == split
    ]
    original = dict.fromkeys(source for source, _, _ in found)
    return (
        *((translation, language) for _, translation, language in found),
        *((source, ENGLISH) for source in original),
    )


@cache
def _translations(code: str) -> tuple[tuple[str, str], ...]:
    """The original texts and their translations, of all packages; plural forms are left out."""
    catalogs: list[dict[object, str]] = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for path in sorted(Path(spec.origin).parent.glob(f"**/locale/{code}/LC_MESSAGES/*.mo")):
            with path.open("rb") as file:
                catalogs.append(vars(gettext.GNUTranslations(file))["_catalog"])
    return tuple(
        (source, text) for catalog in catalogs for source, text in catalog.items() if isinstance(source, str)
    )
