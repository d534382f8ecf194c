"""Docstrings of the packages installed beside the product: real text that every machine has."""

import ast
import inspect
import sysconfig
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from demo.splits import split_of, without_near_copies

PACKAGES: Final = ("stdlib", "django", "numpy", "sklearn", "torch", "transformers")
FILES_PER_PACKAGE: Final = 12
MIN_WORDS: Final = 8
MAX_CHARACTERS: Final = 4_000

_SKIPPED_FOLDERS: Final = {
    "site-packages",
    "test",
    "tests",
    "testing",
    "__pycache__",
    "idlelib",
    "lib2to3",
}
_WITH_STATEMENTS: Final = ("body", "handlers", "orelse", "finalbody", "cases")
_DEFINITIONS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Docstring:
    """One docstring."""

    package: str
    text: str

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


@cache
def read_docstrings() -> tuple[Docstring, ...]:
    """The docstrings of the longest files of each package, which carry the documented API (some seconds).

    No two have summaries that are near copies. The order mixes the packages and is the same in
    each run.
    """
    files = ((package, path) for package in PACKAGES for path in _source_files(package))
    found = [docstring for package, path in files for docstring in _of_file(package, path)]
    found.sort(key=lambda docstring: zlib.crc32(docstring.text.encode()))
    return tuple(without_near_copies(found, lambda docstring: docstring.summary))


def docstrings(split: str) -> Iterator[Docstring]:
    """The docstrings of a split, in the order of `read_docstrings`."""
    return (docstring for docstring in read_docstrings() if split_of(docstring.text) == split)


def _source_files(package: str) -> list[Path]:
    paths = sysconfig.get_paths()
    folder = Path(paths["stdlib"]) if package == "stdlib" else Path(paths["purelib"]) / package
    found = [
        path for path in folder.rglob("*.py") if not _SKIPPED_FOLDERS & set(path.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda path: (-path.stat().st_size, str(path)))[:FILES_PER_PACKAGE]


def _of_file(package: str, path: Path) -> Iterator[Docstring]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return
    for node in _statements(tree):
        if isinstance(node, _DEFINITIONS) and (text := _text_of(node)):
            yield Docstring(package, text)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of `ast.walk` in its order, but for those within expressions: most of all, and nothing is
    defined there."""
    todo: deque[ast.AST] = deque([tree])
    while todo:
        yield (node := todo.popleft())
        for part in _WITH_STATEMENTS:
            todo.extend(getattr(node, part, ()))


def _text_of(node: _DEFINITIONS) -> str | None:
    text = ast.get_docstring(node, clean=False)
    if text is None or len(text) > MAX_CHARACTERS or len(text.split()) < MIN_WORDS:
        return None
    return inspect.cleandoc(text).encode("utf-8", "ignore").decode()
