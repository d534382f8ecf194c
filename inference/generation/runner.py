"""Computes the steps of the generation engine with a decoder."""

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.decoder.lora_deltas import LoraDeltas
from inference.decoder.sgmv.stacks import LoraStacks
from inference.device_errors import raise_if_device_lost
from inference.engine.rows import ModelIdentity
from inference.generation.kv_cache import KvCache
from inference.generation.paged_attention import PagedAttention
from inference.generation.requests import GenerationError
from inference.generation.sampler import Choice, sample
from inference.generation.step import Chunk, Outcome, SampledToken, SequenceFailed, Step
from inference.hplm.upload import Upload

NOT_FINITE = GenerationError("inference_failed", "the model gave numbers that are not finite")


class Loras(Protocol):
    """Gives the LoRA of each model that is computed."""

    def lora(self, model: ModelIdentity) -> DecoderLora | None:
        """The LoRA of a model; None where it is the root itself. Raises SlotMismatchError if the model must
        not be computed."""


class DecoderRunner:
    """The `Runner` of one decoder: the tokens of all chunks in one forward pass, each with the LoRA of its
    model."""

    def __init__(self, decoder: Decoder, cache: KvCache, loras: Loras) -> None:
        """cache: of all layers of the decoder, on its device and in its dtype."""
        self._decoder = decoder
        self._cache = cache
        self._loras = loras
        self._stacks = LoraStacks()
        self._stream = _stream_of(decoder.device)
        if self._stream is not None:
            # The current stream may still compute weights, or use memory that belongs to the cache now.
            self._stream.wait_stream(torch.cuda.current_stream(decoder.device))

    def run(self, step: Step) -> list[Outcome]:
        """See `Runner`. It returns when the device has computed the step. Raises SlotMismatchError if a
        chunk's model is not leased, and DeviceLostError."""
        try:
            with torch.cuda.stream(self._stream):
                return self._run(step.chunks)
        except torch.AcceleratorError as error:
            raise_if_device_lost(error)
            raise

    @torch.inference_mode()
    def _run(self, chunks: Sequence[Chunk]) -> list[Outcome]:
        parts = [(self._loras.lora(chunk.model), chunk.count) for chunk in chunks]
        upload = Upload(self._decoder.device)
        tokens = upload.add(_numbers([token for chunk in chunks for token in chunk.tokens]))
        positions = upload.add(
            _numbers([chunk.start + place for chunk in chunks for place in range(chunk.count)])
        )
        rows = upload.add(_numbers(_last_rows(chunks)))
        attention = PagedAttention(self._cache, chunks, upload)
        deltas = LoraDeltas(parts, self._stacks, upload)
        logits = self._decoder.forward(tokens.tensor, positions.tensor, attention, deltas, rows=rows.tensor)
        due = [chunk for chunk in chunks if chunk.sampling is not None]
        if not due and self._stream is not None:
            self._stream.synchronize()  # nothing else waits for the device
        return [outcome_of(chunk, choice) for chunk, choice in zip(due, sample(logits, due), strict=True)]


@cache
def _stream_of(device: torch.device) -> torch.cuda.Stream | None:
    """The stream of all decoders on a GPU, so that their steps do not wait for the batches of encoders, nor
    these for them; None on a CPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


def _numbers(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def _last_rows(chunks: Sequence[Chunk]) -> list[int]:
    """The last row of each chunk that is due a token."""
    ends = np.cumsum([chunk.count for chunk in chunks]).tolist()
    return [end - 1 for chunk, end in zip(chunks, ends, strict=True) if chunk.sampling is not None]


def outcome_of(chunk: Chunk, choice: Choice | None) -> Outcome:
    """The outcome of a chunk that was due a token: the token, or a failure if its logits are not finite."""
    if choice is None:
        return SequenceFailed(chunk.request_id, NOT_FINITE)
    return SampledToken(chunk.request_id, chunk.model.digest, *choice)
