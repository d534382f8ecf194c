"""The configuration of a root: the content of root.json."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.hplm.artifact_files import FORMAT, read_artifact_json
from inference.hplm.fragments import DEFAULT_N, MAX_ID, MAX_N, MIN_N, UNIGRAM, level_names
from inference.text.sentence_config import SECTION, SentenceConfig
from inference.text.tokenization import MIN_TOKENS, ROOT_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class RootConfig:
    """The configuration of a root.

    lower: the number of layers that lookup tables replace. n: tokens of a fragment. ladder: the levels
    of fragments that the root's tables hold, by their names (default: all), which lookups take in the order
    of `fallback_order`. tables: whether it was converted, so that tables can stand for its lower layers; of
    others every text is computed in full. source_sha256: of the checkpoint's weight files. report: of the
    conversion. sentence: how embeddings are made, if the checkpoint says so.
    """

    name: str
    architecture: Architecture
    lower: int
    max_tokens: int
    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    source_sha256: str
    n: int = DEFAULT_N
    ladder: tuple[str, ...] = ()
    tables: bool = True
    format: int = FORMAT
    report: dict[str, Any] = field(default_factory=dict)
    sentence: SentenceConfig | None = None

    def __post_init__(self) -> None:
        if not 0 < self.lower < self.layers:
            raise HplmError(
                "unsupported_checkpoint", f"{self.lower} lower layers of {self.layers}: need one on each side"
            )
        if not MIN_N <= self.n <= MAX_N:
            raise HplmError(
                "unsupported_checkpoint", f"fragments have {MIN_N} to {MAX_N} tokens, not {self.n}"
            )
        if self.max_tokens < max(self.n, MIN_TOKENS):
            raise HplmError("unsupported_checkpoint", f"max_tokens {self.max_tokens} leaves no room for text")
        if self.vocab > MAX_ID:
            raise HplmError(
                "unsupported_checkpoint", f"a vocabulary of {self.vocab} ids does not fit a fragment key"
            )
        for special in (self.pad_id, self.cls_id, self.sep_id, self.mask_id, self.unk_id):
            if not 0 <= special < self.vocab:
                raise HplmError("unsupported_checkpoint", f"special id {special} is outside the vocabulary")
        self._set_ladder()

    def _set_ladder(self) -> None:
        names = tuple(level_names(self.n))
        ladder = tuple(self.ladder) or names
        if UNIGRAM not in ladder or not set(ladder) <= set(names):
            raise HplmError(
                "corrupt_artifact",
                f"{ROOT_FILE}: the ladder has {', '.join(ladder)}; it needs {UNIGRAM} and has no others than "
                f"{', '.join(names)}",
            )
        object.__setattr__(self, "ladder", tuple(name for name in names if name in ladder))

    @property
    def family(self) -> str:
        return self.architecture.family

    @property
    def layers(self) -> int:
        return self.architecture.layers

    @property
    def hidden(self) -> int:
        return self.architecture.hidden

    @property
    def vocab(self) -> int:
        return self.architecture.vocab

    @property
    def missing_id(self) -> int:
        """The id that stands for a missing neighbour in a fragment."""
        return self.vocab

    @property
    def type_count(self) -> int:
        """The number of token types, at least 1."""
        return max(1, self.architecture.types)

    @property
    def upper(self) -> int:
        """The number of upper layers, which are computed."""
        return self.layers - self.lower

    def to_json(self) -> dict[str, Any]:
        fields = dataclasses.asdict(self)
        if self.sentence is None:
            del fields[SECTION]
        return fields

    @classmethod
    def load(cls, folder: Path) -> "RootConfig":
        """That of the root in a folder. Raises HplmError(corrupt_artifact)."""
        return cls.from_json(read_artifact_json(folder / ROOT_FILE))

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "RootConfig":
        """The inverse of `to_json`. Raises HplmError(corrupt_artifact) for missing or unknown fields."""
        architecture = raw.get("architecture")
        if not isinstance(architecture, dict):
            raise HplmError("corrupt_artifact", "root.json: architecture is missing")
        try:
            if (sentence := raw.get(SECTION)) is not None:
                raw = {**raw, SECTION: SentenceConfig.from_json(sentence)}
            return cls(**{**raw, "architecture": Architecture.from_json(architecture)})
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"root.json: {error}") from error
