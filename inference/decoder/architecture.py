"""The hyperparameters of a decoder, with the same names for all model families."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from inference.decoder.activations import ACTIVATIONS
from inference.decoder.rotary import Rotary
from inference.errors import HplmError
from inference.hplm.checkpoint_config import check_sizes

PROJECTIONS: Final = ("query", "key", "value", "output", "gate", "up", "down")
"""The linear maps of a layer. A feed-forward block that is not gated has no "gate"."""

ATTENTION_PROJECTIONS: Final = PROJECTIONS[:4]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderArchitecture:
    """A decoder of pre-norm blocks with causal attention.

    vocab: size of the vocabulary. hidden: hidden size. inner: size of the feed-forward block. kv_heads: heads
    of keys and values, each shared by heads / kv_heads query heads. head_size: numbers of a head. positions:
    the longest context in tokens. norm: "rms" or "layer". gated: whether the feed-forward block has a gate.
    tied: whether the head is the embedding. biases: the projections that have one. rotary: None if positions
    are learned embeddings, which then begin at row `position_offset`. query_key_norm: whether the queries and
    keys of each head are normed. block_norm: whether the outputs of the blocks are normed, too.
    norm_offset: what is added to the weights of the norms.

    window: how many tokens the `local_layers` attend to, the query's own among them. local_rotary: the
    rotary embedding of those layers, if it is another. unrotated_layers: those without one.

    Multipliers: embedding_scale of the embedded tokens, attention_scale of the scores (None:
    head_size ** -0.5), residual_scale of the blocks' outputs, logits_scale of the logits.
    """

    family: str
    vocab: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    positions: int
    activation: str
    eps: float
    norm: str
    gated: bool
    tied: bool
    biases: tuple[str, ...] = ()
    rotary: Rotary | None = None
    position_offset: int = 0
    query_key_norm: bool = False
    block_norm: bool = False
    norm_offset: float = 0.0
    window: int | None = None
    local_layers: tuple[int, ...] = ()
    local_rotary: Rotary | None = None
    unrotated_layers: tuple[int, ...] = ()
    embedding_scale: float = 1.0
    attention_scale: float | None = None
    residual_scale: float = 1.0
    logits_scale: float = 1.0

    def __post_init__(self) -> None:
        names = ("vocab", "hidden", "inner", "layers", "heads", "kv_heads", "head_size", "positions")
        check_sizes({name: getattr(self, name) for name in names})
        if self.heads % self.kv_heads:
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: {self.heads} heads cannot share {self.kv_heads} heads of keys and values",
            )
        if self.activation not in ACTIVATIONS:
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: activation {self.activation!r} is not supported; {', '.join(ACTIVATIONS)} are",
            )
        for rotary in filter(None, (self.rotary, self.local_rotary)):
            self._check_rotary(rotary)
        self._check_layers()
        self._check_scales()

    def _check_rotary(self, rotary: Rotary) -> None:
        rotated = rotary.rotated(self.head_size)
        if rotated % 2 or not rotated:
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: {rotated} of the {self.head_size} numbers of a head cannot be rotated",
            )
        if len(rotary.factors) not in (0, rotated // 2):
            raise HplmError(
                "unsupported_checkpoint",
                f"{len(rotary.factors)} rotary factors do not fit heads of {self.head_size} numbers",
            )

    def _check_layers(self) -> None:
        if self.local_layers and (not isinstance(self.window, int) or self.window < 1):
            raise HplmError("unsupported_checkpoint", "config.json: sliding_window must be a positive number")
        if not {*self.local_layers, *self.unrotated_layers} <= set(range(self.layers)):
            raise HplmError("unsupported_checkpoint", f"config.json: layers beyond the {self.layers}")

    def _check_scales(self) -> None:
        scales = (self.embedding_scale, self.query_scale, self.residual_scale, self.logits_scale)
        if not all(math.isfinite(scale) and scale > 0 for scale in scales):
            raise HplmError("unsupported_checkpoint", "config.json: multipliers must be positive numbers")

    def window_of(self, layer: int) -> int | None:
        """How many tokens a layer attends to, the query's own among them; None: all."""
        return self.window if layer in self.local_layers else None

    def rotary_of(self, layer: int) -> Rotary | None:
        """The rotary embedding of a layer; None if it has none."""
        if layer in self.unrotated_layers:
            return None
        return (layer in self.local_layers and self.local_rotary) or self.rotary

    @property
    def query_scale(self) -> float:
        """What queries are multiplied by before attention divides the scores by the root of the head size."""
        return 1.0 if self.attention_scale is None else self.attention_scale * math.sqrt(self.head_size)

    @property
    def projections(self) -> tuple[str, ...]:
        """The projections of each layer, in the order of PROJECTIONS."""
        return tuple(name for name in PROJECTIONS if name != "gate" or self.gated)

    def projection_shape(self, projection: str) -> tuple[int, int]:
        """(in, out) of a projection of any layer."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "query": (self.hidden, queries),
            "key": (self.hidden, keys),
            "value": (self.hidden, keys),
            "output": (queries, self.hidden),
            "gate": (self.hidden, self.inner),
            "up": (self.hidden, self.inner),
            "down": (self.inner, self.hidden),
        }[projection]

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight of a decoder by its name. Weights of projections are [out, in]."""
        shapes: dict[str, tuple[int, ...]] = {"embed.weight": (self.vocab, self.hidden)}
        if self.rotary is None:
            shapes["positions.weight"] = (self.positions + self.position_offset, self.hidden)
        for layer in range(self.layers):
            shapes |= {f"layers.{layer}.{name}": shape for name, shape in self._layer_shapes().items()}
        shapes |= self._norm_shapes("norm")
        if not self.tied:
            shapes["head.weight"] = (self.vocab, self.hidden)
        return shapes

    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = self._norm_shapes("attention_norm") | self._norm_shapes("mlp_norm")
        if self.block_norm:
            shapes |= self._norm_shapes("attention_block_norm") | self._norm_shapes("mlp_block_norm")
        for projection in self.projections:
            inputs, outputs = self.projection_shape(projection)
            shapes[f"{projection}.weight"] = (outputs, inputs)
            if projection in self.biases:
                shapes[f"{projection}.bias"] = (outputs,)
        if self.query_key_norm:
            shapes |= {f"{name}.weight": (self.head_size,) for name in ("query_norm", "key_norm")}
        return shapes

    def _norm_shapes(self, name: str) -> dict[str, tuple[int, ...]]:
        parts = ("weight", "bias") if self.norm == "layer" else ("weight",)
        return {f"{name}.{part}": (self.hidden,) for part in parts}

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "DecoderArchitecture":
        """The inverse of `to_json`. Raises HplmError(corrupt_artifact) for missing or unknown fields."""
        tuples = ("biases", "local_layers", "unrotated_layers")
        try:
            rotaries = {name: raw.get(name) for name in ("rotary", "local_rotary")}
            return cls(
                **{
                    **raw,
                    **{name: tuple(raw.get(name, ())) for name in tuples},
                    **{name: value and Rotary.from_json(value) for name, value in rotaries.items()},
                }
            )
        except TypeError as error:
            raise HplmError("corrupt_artifact", f"architecture: {error}") from error
