"""What stays behind of a tenant that was deleted: its words, and the tokens of them, in the files below the
product's home."""

import gzip
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from tokenizers import Tokenizer

LEFT_OUT: Final = ("postgres", "backups")
"""Dead rows and the log of writes go with vacuum and checkpoints; backups are the operator's to delete."""
TOKENS: Final = 5
"""So many tokens in a row count as a trace. A word of a marker has some more."""
TYPES: Final = ("<u2", "<i4", "<i8")
"""As which token ids are stored."""


class Marker:
    """Words that nobody else has. They stand in texts, and one of them in names, so that they are read as the
    same tokens everywhere."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def name(self, kind: str) -> str:
        """A name with one of the words, the same for each kind."""
        return f"{kind}-{self.words[len(kind) % len(self.words)]}"

    def patterns(self, tokenizers: Iterable[Tokenizer]) -> frozenset[bytes]:
        """What to look for: each word, also as a file name or in JSON, and each run of TOKENS of its tokens
        as arrays of numbers."""
        runs = {run for tokenizer in tokenizers for word in self.words for run in _runs(tokenizer, word)}
        numbers = {np.array(run, kind).tobytes() for run in runs for kind in TYPES}
        return frozenset({word.encode() for word in self.words} | numbers)


class Walk:
    """Looks for patterns in the files below some folders that were written since a moment. Files that did
    not change since the last time are not read again."""

    def __init__(self, folders: Sequence[Path], patterns: Iterable[bytes], *, since: float) -> None:
        self._folders, self._patterns, self._since = folders, tuple(patterns), since
        self._seen: dict[tuple[Path, int, int], int] = {}

    def traces(self) -> Counter[str]:
        """The bytes of the patterns that were found, by file."""
        found, seen = Counter[str](), {}
        for folder in self._folders:
            for file in _files(folder):
                try:
                    about = file.stat()
                    known = (file, about.st_mtime_ns, about.st_size)
                    seen[known] = (
                        self._seen[known] if known in self._seen else self._read(file, about.st_mtime)
                    )
                except OSError:  # it has just been deleted
                    continue
                found[str(file.relative_to(folder))] += seen[known]
        self._seen = seen
        return +found

    def _read(self, file: Path, written: float) -> int:
        in_name = self._count(str(file).encode())
        if written < self._since:
            return in_name
        return in_name + sum(map(self._count, _chunks(file)))

    def _count(self, content: bytes) -> int:
        return sum(len(pattern) * content.count(pattern) for pattern in self._patterns)


def tokenizers_below(folder: Path) -> list[Tokenizer]:
    """The tokenizers of all roots."""
    return [Tokenizer.from_file(str(file)) for file in sorted(folder.rglob("tokenizer.json"))]


def _runs(tokenizer: Tokenizer, word: str) -> Iterator[tuple[int, ...]]:
    """Of the word as it stands behind another one: its first tokens are others at the beginning of a text."""
    ids = tokenizer.encode(f"a {word}", add_special_tokens=False).ids[1:]
    for first in range(len(ids) - TOKENS + 1):
        yield tuple(ids[first : first + TOKENS])


def _files(folder: Path) -> Iterator[Path]:
    """All files; a folder that vanishes meanwhile has none."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.is_symlink() or entry.name in LEFT_OUT:
            continue
        if entry.is_dir():
            yield from _files(entry)
        elif entry.is_file():
            yield entry


def _chunks(file: Path) -> Iterator[bytes]:
    """The content, and that of what is compressed in it."""
    yield file.read_bytes()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as members:
            yield from (members.read(member) for member in members.namelist())
    elif file.suffix == ".gz":
        yield gzip.decompress(file.read_bytes())
