"""Rotary position embeddings: queries and keys are turned by an angle that grows with their position."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from inference.errors import HplmError

KINDS: Final = ("default", "linear", "llama3")
Rotation = tuple[Tensor, Tensor]
"""Cosine and sine [T, 1, r / 2] of the angles of T tokens. r: the rotated numbers of a head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """The frequencies of a rotary embedding.

    theta: base of the frequencies. kind: how they are scaled for long contexts: "default" (not at all),
    "linear" (all divided by `factor`), "llama3" (the low ones divided by `factor`, the high ones kept).
    original_positions: context of the pretraining; low and high factor: where the high ones begin and end,
    in wavelengths per original context (LLaMA 3 only). factors: what each frequency is divided by beside
    that, if anything; GGUF files of LLaMA 3.1 and later have them instead of a kind. share: of the numbers of
    a head that are rotated, the first ones.
    """

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_factor: float = 1.0
    high_factor: float = 4.0
    original_positions: int = 0
    factors: tuple[float, ...] = ()
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: rotary scaling {self.kind!r} is not supported; {', '.join(KINDS)} are",
            )
        numbers = (self.theta, self.factor, self.low_factor, self.high_factor, self.share, *self.factors)
        if not all(math.isfinite(number) and number > 0 for number in numbers):
            raise HplmError("unsupported_checkpoint", "config.json: rotary factors must be positive numbers")
        if self.share > 1:
            raise HplmError("unsupported_checkpoint", "config.json: partial_rotary_factor is above 1")
        if self.kind == "llama3" and (self.original_positions < 1 or self.high_factor <= self.low_factor):
            raise HplmError(
                "unsupported_checkpoint",
                "config.json: llama3 scaling needs original_max_position_embeddings, and a high_freq_factor "
                "above its low_freq_factor",
            )

    @classmethod
    def parse(cls, raw: Mapping[str, Any], *, is_partial: bool = False) -> "Rotary":
        """Read `rope_parameters` of a config.json, or `rope_theta` and `rope_scaling` of an older one.

        is_partial: whether the family rotates only a share of each head where the file says so.
        Raises HplmError(unsupported_checkpoint) for other kinds and for values that are no numbers.
        """
        given = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
        if not isinstance(given, Mapping) or any(isinstance(value, Mapping) for value in given.values()):
            raise HplmError("unsupported_checkpoint", "config.json: rotary parameters differ by layer")
        partial = given.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
        if partial != 1.0 and not is_partial:
            raise HplmError("unsupported_checkpoint", "config.json: partial rotary embeddings")
        try:
            return cls(
                theta=float(given.get("rope_theta", raw.get("rope_theta", 10_000.0))),
                kind=str(given.get("rope_type", given.get("type", "default"))),
                factor=float(given.get("factor", 1.0)),
                low_factor=float(given.get("low_freq_factor", 1.0)),
                high_factor=float(given.get("high_freq_factor", 4.0)),
                original_positions=int(given.get("original_max_position_embeddings") or 0),
                share=float(partial),
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise HplmError("unsupported_checkpoint", f"config.json: rotary parameters: {error}") from error

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Rotary":
        """The inverse of `dataclasses.asdict`. Raises TypeError for missing or unknown fields."""
        return cls(**{**raw, "factors": tuple(raw.get("factors", ()))})

    def rotated(self, head_size: int) -> int:
        """How many numbers of a head are rotated."""
        return int(head_size * self.share)

    def frequencies(self, head_size: int) -> Tensor:
        """Angle per position [r / 2] float32 of each pair of rotated numbers."""
        rotated = self.rotated(head_size)
        exponents = torch.arange(0, rotated, 2, dtype=torch.float32) / rotated
        plain = 1.0 / (self.theta**exponents)
        if self.factors:
            plain = plain / torch.tensor(self.factors)
        if self.kind == "linear":
            return plain / self.factor
        return self._scaled_as_llama3(plain) if self.kind == "llama3" else plain

    def _scaled_as_llama3(self, plain: Tensor) -> Tensor:
        waves = self.original_positions * plain / (2 * math.pi)  # per original context
        kept = ((waves - self.low_factor) / (self.high_factor - self.low_factor)).clamp(0, 1)
        return (1 - kept) * plain / self.factor + kept * plain

    def table(self, head_size: int, positions: int) -> Tensor:
        """Cosine and sine [2, positions, 1, r / 2] float32 of every position.

        A table, not a function of each step's positions, so that a position has the same angles in any batch.
        """
        angles = torch.outer(
            torch.arange(positions, dtype=torch.float32), self.frequencies(head_size)
        ).unsqueeze(1)
        return torch.stack((angles.cos(), angles.sin()))


def rotate(states: Tensor, rotation: Rotation) -> Tensor:
    """Queries or keys [T, heads, d], turned: number i of the first r with number i + r / 2."""
    cosine, sine = rotation
    half = cosine.shape[-1]
    first, second, kept = torch.split(states, [half, half, states.shape[-1] - 2 * half], dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, kept), dim=-1)
