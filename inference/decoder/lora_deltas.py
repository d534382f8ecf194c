"""The LoRAs and adapters of a step's tokens at work in the projections of a decoder."""

from typing import TYPE_CHECKING

from torch import Tensor

from inference.decoder.sgmv.cpu import CpuSgmv
from inference.decoder.sgmv.segments import Parts, Segments
from inference.decoder.sgmv.stacks import LoraStacks
from inference.hplm.upload import Upload

if TYPE_CHECKING:
    from inference.decoder.sgmv.triton_sgmv import TritonSgmv


class LoraDeltas:
    """What the LoRAs and adapters of a step add: `ProjectionDeltas`. Built once a step.

    parts: the LoRA, or None, of neighbouring tokens and their number, in the order of the tokens. All LoRAs
    are on the device and in the dtype of the decoder. stacks: a worker's own on a CPU, for all of its steps;
    without them, many short segments are slow. upload: what a step copies to a GPU; None: an own one. A
    token's numbers do not depend on the other tokens, bit by bit in float32 if the widths of the projections
    are multiples of 16, as in usual models.
    """

    def __init__(self, parts: Parts, stacks: LoraStacks | None = None, upload: Upload | None = None) -> None:
        self._segments = Segments.of(parts)
        self._sgmv = _sgmv(self._segments, stacks, upload)

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        """`outputs` [T, out], changed in place by the LoRAs' updates of inputs [T, in]. Between the calls for
        projections that read one input tensor, that must not change."""
        assert len(inputs) == self._segments.tokens, "the step has another number of tokens"
        return outputs if self._sgmv is None else self._sgmv(layer, projection, inputs, outputs)


def _sgmv(
    segments: Segments, stacks: LoraStacks | None, upload: Upload | None
) -> "CpuSgmv | TritonSgmv | None":
    """What adds the LoRAs on their device; None for a step without any."""
    if not segments.segments:
        return None
    kinds = {(segment.lora.row.device, segment.lora.row.dtype) for segment in segments.segments}
    assert len(kinds) == 1, "the LoRAs are on several devices or of several dtypes"
    if segments.segments[0].lora.row.device.type == "cpu":
        return CpuSgmv(segments, stacks)
    # Only the builds of PyTorch for GPUs bring Triton with them.
    from inference.decoder.sgmv.triton_sgmv import TritonSgmv

    return TritonSgmv(segments, upload)
