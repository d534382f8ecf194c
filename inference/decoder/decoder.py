"""The decoder: embeddings, pre-norm transformer blocks and the language model head, for all families."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from inference.decoder.activations import ACTIVATIONS
from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.lora_layout import ADAPTERS
from inference.decoder.rotary import Rotary, Rotation, rotate
from inference.errors import HplmError
from inference.hplm import bucketed_linear
from inference.hplm.artifact_files import read_weights, write_weights

ROW_MULTIPLE: Final = 4
"""On a CPU the number of rows of a product is a multiple of this, so that rows do not depend on each other.

Matrix libraries choose a kernel by the number of rows that a thread gets, and kernels for fewer than four
rows add up in another order. In float32 the rows of a product have the same bits in any batch if their
number is a multiple of four, and the width of the inputs a multiple of 16, as it is in usual models.
"""
CPU_INFO: Final = Path("/proc/cpuinfo")

# On Intel's processors MKL has such kernels for up to twelve rows. Its strict mode of reproducible results
# adds up in one order for any number; from 16 rows on that takes no longer. MKL reads it at the first product
# of a process. On AMD's processors the multiple of four is enough.
if CPU_INFO.is_file() and "GenuineIntel" in CPU_INFO.read_text(encoding="utf-8"):
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


class Attention(Protocol):
    """Causal attention of packed tokens, which may write keys and values to a cache and read it."""

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, window: int | None = None
    ) -> Tensor:
        """Mixed values [T, heads, d] of query [T, heads, d], and key and value [T, kv_heads, d] of the same
        tokens. Rotary embeddings are already applied. window: a token attends to that many, itself among
        them; None: to all up to itself."""
        ...


class ProjectionDeltas(Protocol):
    """What tenants' PETs add to the frozen projections."""

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        """`outputs` [T, out] of the frozen projection for `inputs` [T, in], plus the PETs' part. It may write
        into `outputs`.

        It is called for adapters, too, by their names in `ADAPTERS`: then `inputs` is `outputs`."""
        ...


class Decoder:
    """The weights of a decoder, frozen, and its forward pass over packed tokens.

    Packed: the T tokens of all sequences lie one after another, without padding; `attention` knows where each
    begins. Gradients flow through to `states` and into `deltas` where they are enabled. On a CPU the numbers
    of a token do not depend on the other sequences, bit by bit, if those of `attention` and `deltas` do not.

    States between layers are float32 whatever the weights' dtype, so that each layer's rounding is not added
    to that of all layers below; inputs and outputs of the projections have the weights' dtype.
    """

    def __init__(self, architecture: DecoderArchitecture, weights: Mapping[str, Tensor]) -> None:
        """`weights` are named and shaped as `architecture.weight_shapes()` says, all on one device and of one
        floating-point type."""
        self.architecture = architecture
        self.weights = dict(weights)
        self._activation = ACTIVATIONS[architecture.activation]
        self._head = self.weights["embed.weight" if architecture.tied else "head.weight"]
        self._norms = {
            name.removesuffix(".weight"): weight.float() + architecture.norm_offset
            for name, weight in self.weights.items()
            if name.endswith("norm.weight")
        }
        self._rotary_of = [architecture.rotary_of(layer) for layer in range(architecture.layers)]
        self._rotary_tables = {
            rotary: rotary.table(architecture.head_size, architecture.positions).to(self.device, self.dtype)
            for rotary in filter(None, set(self._rotary_of))
        }

    @property
    def device(self) -> torch.device:
        return self.weights["embed.weight"].device

    @property
    def dtype(self) -> torch.dtype:
        return self.weights["embed.weight"].dtype

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        attention: Attention,
        deltas: ProjectionDeltas | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Logits float32 [R, vocab] of the tokens number `rows` [R] int64 (None: of all T tokens).

        token_ids, positions: [T] int64; positions count from 0 in each sequence.
        """
        states = self.run_layers(self.embed(token_ids, positions), positions, attention, deltas)
        return self.logits(states if rows is None else states[rows])

    def embed(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """States [T, hidden] float32 below the first layer, of token ids and positions [T] int64."""
        states = functional.embedding(token_ids, self.weights["embed.weight"]).float()
        states = _scaled(states, self.architecture.embedding_scale)
        if self.architecture.rotary is None:
            rows = positions + self.architecture.position_offset
            states = states + functional.embedding(rows, self.weights["positions.weight"])
        return states

    def run_layers(
        self,
        states: Tensor,
        positions: Tensor,
        attention: Attention,
        deltas: ProjectionDeltas | None = None,
        layers: range | None = None,
    ) -> Tensor:
        """States [T, hidden] float32 above the last of `layers` (None: all) of `states` [T, hidden] float32
        below the first; positions: [T] int64."""
        rotations = self._rotations(positions)
        for layer in range(self.architecture.layers) if layers is None else layers:
            states = self._attend(layer, states, rotations, attention, deltas)
            states = self._feed_forward(layer, states, deltas)
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Logits float32 [R, vocab] of states [R, hidden] float32 above the last layer: final norm and
        head."""
        logits = linear(self._norm("norm", states), self._head, None).float()
        return _scaled(logits, self.architecture.logits_scale)

    def _rotations(self, positions: Tensor) -> dict[Rotary, Rotation]:
        """The rotation of tokens at these positions, by the rotary embeddings of the layers."""
        rows = {rotary: table[:, positions] for rotary, table in self._rotary_tables.items()}
        return {rotary: (cosine, sine) for rotary, (cosine, sine) in rows.items()}

    def _attend(
        self,
        layer: int,
        states: Tensor,
        rotations: Mapping[Rotary, Rotation],
        attention: Attention,
        deltas: ProjectionDeltas | None,
    ) -> Tensor:
        inputs, head_size = self._norm(f"layers.{layer}.attention_norm", states), self.architecture.head_size
        query, key, value = (
            self._project(layer, projection, inputs, deltas).view(len(inputs), -1, head_size)
            for projection in ("query", "key", "value")
        )
        if self.architecture.query_key_norm:
            query = self._norm(f"layers.{layer}.query_norm", query)
            key = self._norm(f"layers.{layer}.key_norm", key)
        query, rotary = _scaled(query, self.architecture.query_scale), self._rotary_of[layer]
        if rotary is not None:
            query, key = rotate(query, rotations[rotary]), rotate(key, rotations[rotary])
        mixed = attention(layer, query, key, value, self.architecture.window_of(layer)).flatten(1)
        return self._add(states, layer, "attention", self._project(layer, "output", mixed, deltas))

    def _feed_forward(self, layer: int, states: Tensor, deltas: ProjectionDeltas | None) -> Tensor:
        inputs = self._norm(f"layers.{layer}.mlp_norm", states)
        inner = self._project(layer, "up", inputs, deltas)
        if self.architecture.gated:
            inner = self._activation(self._project(layer, "gate", inputs, deltas)) * inner
        else:
            inner = self._activation(inner)
        return self._add(states, layer, "mlp", self._project(layer, "down", inner, deltas))

    def _add(self, states: Tensor, layer: int, block: str, outputs: Tensor) -> Tensor:
        """States plus the outputs of a block."""
        if self.architecture.block_norm:
            outputs = self._norm(f"layers.{layer}.{block}_block_norm", outputs)
        return states + _scaled(outputs, self.architecture.residual_scale)

    def _project(
        self, layer: int, projection: str, inputs: Tensor, deltas: ProjectionDeltas | None
    ) -> Tensor:
        name = f"layers.{layer}.{projection}"
        outputs = linear(inputs, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))
        if deltas is None:
            return outputs
        outputs = deltas(layer, projection, inputs, outputs)
        adapter = ADAPTERS.get(projection)
        return outputs if adapter is None else deltas(layer, adapter, outputs, outputs)

    def _norm(self, name: str, states: Tensor) -> Tensor:
        """Norm over the last dimension, computed in float32, in the weights' dtype."""
        weight, eps = self._norms[name], self.architecture.eps
        if self.architecture.norm == "rms":
            normed = functional.rms_norm(states.float(), weight.shape, weight, eps)
        else:
            bias = self.weights[f"{name}.bias"].float()
            normed = functional.layer_norm(states.float(), weight.shape, weight, bias, eps)
        return normed.to(self.dtype)

    @classmethod
    def from_weights(
        cls,
        architecture: DecoderArchitecture,
        weights: Mapping[str, Tensor],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        code: str = "unsupported_checkpoint",
    ) -> "Decoder":
        """A decoder with these weights, cast and moved.

        Raises HplmError with `code` if a weight is missing, not known or of another shape than the
        architecture says.
        """
        check_weights(architecture, weights, code)
        return cls(
            architecture,
            {
                name: value.detach().to(device=device, dtype=dtype).contiguous()
                for name, value in weights.items()
            },
        )

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.weights)

    @classmethod
    def load(
        cls,
        path: Path,
        architecture: DecoderArchitecture,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "Decoder":
        """Read what `save` wrote. Raises HplmError(corrupt_artifact)."""
        return cls.from_weights(architecture, read_weights(path), device, dtype, "corrupt_artifact")


def check_weights(
    architecture: DecoderArchitecture, weights: Mapping[str, Tensor], code: str = "unsupported_checkpoint"
) -> None:
    """Raise HplmError with `code` unless the weights are those of the architecture."""
    shapes = architecture.weight_shapes()
    if missing := shapes.keys() - weights.keys():
        raise HplmError(code, f"weights are missing: {', '.join(sorted(missing)[:3])}")
    if unknown := weights.keys() - shapes.keys():
        raise HplmError(code, f"weights do not belong to the model: {', '.join(sorted(unknown)[:3])}")
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            found = list(weights[name].shape)
            raise HplmError(code, f"{name} has the shape {found}, not {list(shape)}")
        if not weights[name].is_floating_point():
            raise HplmError(code, f"{name} is stored as {weights[name].dtype}")


def _scaled(states: Tensor, scale: float) -> Tensor:
    return states if scale == 1.0 else states * scale


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Outputs [T, out] of inputs [T, in], weight [out, in] and bias [out], as `functional.linear`."""
    rows = len(inputs)
    missing = -rows % ROW_MULTIPLE
    if missing == 0 or inputs.device.type != "cpu":
        return bucketed_linear.linear(inputs, weight, bias)
    return bucketed_linear.linear(functional.pad(inputs, (0, 0, 0, missing)), weight, bias)[:rows]
