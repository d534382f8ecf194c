"""Datasets, corpora, and the uploads that they are made of."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json


@dataclass(frozen=True, slots=True)
class Split:
    """One file of a dataset."""

    split: str
    rows: int
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Labelled examples."""

    id: int
    name: str
    task: str
    labels: list[str] | None = None
    splits: tuple[Split, ...] = ()
    report: Json = field(default_factory=dict)
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A row of a split, counted from 1."""

    row: int
    fields: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Plain text for building domains."""

    id: int
    name: str
    rows: int
    words: int = 0
    size_bytes: int = 0
    sha256: str = ""
    report: Json = field(default_factory=dict)
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """A resumable upload. ``offset`` is the number of bytes received."""

    id: str
    filename: str
    size_bytes: int
    offset: int
    fingerprint: str = ""
    sha256: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all bytes were received."""
        return self.offset == self.size_bytes


@dataclass(frozen=True, slots=True)
class Check:
    """The check of uploaded files, and the dataset or corpus created from them. ``columns``: those that were
    given or guessed."""

    id: str
    kind: str
    state: str
    name: str = ""
    columns: Json | None = None
    preview: Json = field(default_factory=dict)
    error: Json | None = None
    row_errors: list[Json] = field(default_factory=list)
    corpus: int | None = None
    dataset: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether the check is waiting or running."""
        return self.state in ("waiting", "running")
