"""What a root is, in numbers: the content of root.json."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from inference.hplm.errors import HplmError
from inference.hplm.fragments import MAX_ID, N
from inference.hplm.json_files import FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class RootConfig:
    """Shape and special ids of a root. `lower` of its `layers` are looked up; `missing_id` is `vocab`."""

    name: str
    family: str
    lower: int
    layers: int
    hidden: int
    heads: int
    max_tokens: int
    vocab: int
    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    missing_id: int
    source_sha256: str
    n: int = N
    format: int = FORMAT
    report: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.lower < self.layers:
            raise HplmError(
                "unsupported_checkpoint", f"{self.lower} lower layers of {self.layers}: need one on each side"
            )
        if self.max_tokens < N:
            raise HplmError("unsupported_checkpoint", f"max_tokens {self.max_tokens} leaves no room for text")
        if self.missing_id != self.vocab or self.vocab > MAX_ID:
            raise HplmError(
                "unsupported_checkpoint", f"a vocabulary of {self.vocab} ids does not fit a fragment key"
            )
        for special in (self.pad_id, self.cls_id, self.sep_id, self.mask_id, self.unk_id):
            if not 0 <= special < self.vocab:
                raise HplmError("unsupported_checkpoint", f"special id {special} is outside the vocabulary")

    @property
    def upper(self) -> int:
        """How many layers are computed."""
        return self.layers - self.lower

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "RootConfig":
        """Raises HplmError(corrupt_artifact) for absent or unknown fields."""
        try:
            return cls(**raw)
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"root.json: {error}") from error
