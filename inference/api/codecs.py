"""The text codec of each model, and its encodings and outputs as messages carry them."""

import logging
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from django.conf import settings

from inference.errors import HplmError
from inference.queueing.messages import SequenceOutput, TokenSequence
from inference.text.codec import OutputNames, Outputs, TextCodec
from inference.text.encodings import EncodedInput, InferInput, outputs_at
from inference.text.tokenization import Encoding, TextTokenizer
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from versiontree.artifact_store import ArtifactStore

log = logging.getLogger(__name__)

KEPT_S: Final = math.inf
"""Artifacts never change."""


def text_codec(*, root: str, version: str, embed: bool) -> TextCodec:
    """The codec of a model, by the digests of its root and its version. Raises HmiError(inference_failed)
    where an artifact cannot be read, and CacheMiss within ``cached_only``."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    try:
        tokenizer = cached(
            f"tokenizer:{root}", lambda: TextTokenizer.of_root(store.path("root", root)), KEPT_S
        )
        if embed:
            return TextCodec(tokenizer, None)
        names = cached(f"outputs:{version}", lambda: OutputNames.load(store.path("hplm", version)), KEPT_S)
    except HplmError as error:
        raise HmiError(ErrorCode.INFERENCE_FAILED, error.message) from error
    return TextCodec(tokenizer, names)


def encode(codec: TextCodec, inputs: Sequence[InferInput]) -> tuple[EncodedInput, ...]:
    """The inputs as token ids. Raises HmiError: what `TextCodec.encode` raises, or ``inference_failed`` for a
    text that breaks the tokenizer."""
    try:
        return codec.encode(inputs)
    except HplmError as error:
        raise HmiError(ErrorCode(error.code), error.message, param="inputs") from error
    except Exception as error:
        log.exception("Inputs cannot be tokenised")
        raise HmiError(ErrorCode.INFERENCE_FAILED, "The inputs cannot be tokenised.") from error


def token_sequences(encoded: Iterable[EncodedInput], *, task: str) -> tuple[TokenSequence, ...]:
    """One for each encoding of each input, in their order."""
    return tuple(_sequence(encoding, task) for each in encoded for encoding in each.encodings)


def outputs_of(received: Iterable[SequenceOutput]) -> list[Outputs]:
    """What came of each sequence. Raises ValueError for what is no list of numbers."""
    return [
        Outputs(
            np.frombuffer(output.values, "<f4"),
            np.frombuffer(output.levels, np.uint8) if output.levels else None,
        )
        for output in received
    ]


def _sequence(encoding: Encoding, task: str) -> TokenSequence:
    asked = outputs_at(task, encoding)
    return TokenSequence(
        ids=encoding.ids.astype("<i4").tobytes(),
        types=encoding.types.astype(np.uint8).tobytes() if encoding.types.any() else b"",
        outputs_at=None if asked is None else asked.astype("<i4").tobytes(),
    )
