"""A tenant's infer request, once its texts are token ids: which version answers, canaries among them, and the
codec of each model, which reads its texts and outputs."""

import logging
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from django.conf import settings
from structlog.contextvars import bind_contextvars

from inference.api.admission import AdmissionRequest
from inference.api.rates.limits import DailyLimit, Limits, daily_limit, limits_of
from inference.api.rates.spending import TooLongRefusal, reading_texts
from inference.api.validation import InferCall, default_policy, fit_inputs, invalid
from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import HASH_BYTES, draw
from inference.cascade.profile import CascadeProfile
from inference.errors import HplmError
from inference.queueing.log_fields import request_fields
from inference.queueing.messages import ModelRef, SequenceOutput, TokenSequence
from inference.queueing.replies import How
from inference.text.codec import TextCodec
from inference.text.encode import TooManyTokens
from inference.text.encodings import EncodedInput, InferInput, outputs_at
from inference.text.outputs import OutputNames, Outputs
from inference.text.sentence_config import SentenceConfig
from inference.text.tokenization import Encoding, TextTokenizer, root_has_tables
from tenants.accounts.models import ApiKey, Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.resolution import ResolvedModel, require_encoder, resolve_model_cached

Part = TypeVar("Part")

log = logging.getLogger(__name__)

KEPT_S: Final = math.inf
"""Artifacts never change."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that nothing speaks against but the engine's own load. ``key`` is the one it came with, if
    any; ``limits`` and ``daily`` are those it counts against; ``sequences`` are what the engine gets, and
    ``encoded`` and ``codec`` what its outputs are read with. ``cascade``: the digest of the profile that an
    evaluation fitted, or "". ``reference`` is the model as it was asked for. ``tokens``: of all sequences,
    with the special ones and those that windows share."""

    request_id: str
    tenant: Tenant
    key: ApiKey | None
    model: ModelRef
    codec: TextCodec
    encoded: tuple[EncodedInput, ...]
    sequences: tuple[TokenSequence, ...]
    cascade: str
    tokens: int
    admission: AdmissionRequest
    limits: Limits
    daily: DailyLimit
    plan: AnswerPlan
    explain: bool
    reference: str = ""

    @property
    def request_options(self) -> How:
        """The arguments of `InferClient.request` beyond model and sequences."""
        return {
            "root": self.admission.root,
            "seconds": self.admission.seconds,
            "call": self.request_id,
            "level": self.plan.level,
            "dispatcher": self.plan.dispatcher,
            "explain": self.explain,
            "embed": self.codec.names is None,
        }

    @property
    def log_fields(self) -> dict[str, Any]:
        """What every line of the log about it says."""
        fields = request_fields(self.model, inputs=len(self.encoded), tokens=self.tokens)
        return {"tenant": self.tenant.slug, **fields}


def prepare_request(
    call: InferCall,
    *,
    tenant: Tenant,
    key: ApiKey | None = None,
    request_id: str | None = None,
    embed: bool = False,
    prompt_name: str | None = None,
) -> PreparedRequest:
    """Resolve the model of the call for `tenant`, choose between an alias's version and its canary, and
    tokenise the inputs.

    The caller has checked the permission to act for the tenant. With `embed` each result is the text's
    `embedding`, whatever the model's task is, with the root's prompt of this name before each text (None: its
    default one). Raises HmiError: inputs that are not those of the model, `invalid_field` (a generative
    model, an unknown prompt, anything but embeddings of a model for them), `not_found`, `model_not_ready`,
    `quota_exceeded`, `rate_limited`.
    """
    named = require_encoder(resolve_model_cached(tenant, call.model), embed=embed)
    texts = fit_inputs(call.inputs, task="" if embed else named.task, pairs=named.pairs and not embed)
    daily = daily_limit(tenant)
    resolved = version_for(named, texts)
    if embed:
        texts = with_prompt(texts, root=resolved.root_digest, name=prompt_name)
    codec = text_codec(
        root=resolved.root_digest, version=resolved.digest, cascade=resolved.cascade, embed=embed
    )
    limits = limits_of(tenant, key)
    with reading_texts(limits.tokens):
        encoded = encode(codec, texts)
    plan = codec.plan(call.policy or default_policy(resolved.policy), call.target)
    sequences = token_sequences(encoded, task=codec.task)
    prepared = PreparedRequest(
        request_id or uuid.uuid4().hex,
        tenant,
        key,
        ModelRef(resolved.tenant_slug, resolved.model_name, resolved.version_number, resolved.digest),
        codec,
        encoded,
        sequences,
        resolved.cascade,
        sum(map(len, sequences)),
        AdmissionRequest(
            resolved.tenant_slug, resolved.root_digest, resolved.root, call.seconds, tenant.weight
        ),
        limits,
        daily,
        plan,
        call.explain,
        call.model,
    )
    bind_contextvars(**prepared.log_fields)
    return prepared


def version_for(model: ResolvedModel, inputs: Sequence[InferInput]) -> ResolvedModel:
    """The canary of the model for its share of the requests, else the model itself.

    The inputs of the request and the canary alone decide, so that the same request is always answered by the
    same version. A larger share keeps the requests of a smaller one.
    """
    if model.canary is None:
        return model
    is_drawn = draw(_request_hash(inputs, salt=model.canary.digest)) < model.canary_percent / 100
    return model.canary if is_drawn else model


def answered_name(model: ModelRef, *, root: str) -> str:
    """The model as answers name it: with its tenant, unless it is the root of this digest itself."""
    return model.hplm if model.digest == root else f"{model.tenant}/{model.hplm}"


def _request_hash(inputs: Sequence[InferInput], *, salt: str) -> bytes:
    """HASH_BYTES of all the inputs. With its salt the draw does not depend on that of the dispatcher."""
    parts = [salt.encode(), *(given.digest(HASH_BYTES) for given in inputs)]
    return blake2b(b"".join(parts), digest_size=HASH_BYTES).digest()


def text_codec(*, root: str, version: str, cascade: str = "", embed: bool) -> TextCodec:
    """The codec of a model, by the digests of its root, its version and the profile of its cascade ("": that
    of the version). Raises HmiError(inference_failed) where an artifact cannot be read."""
    if embed:
        return cached(f"codec:{root}", lambda: _codec_of_root(root), KEPT_S)
    return cached(f"codec:{root}:{version}:{cascade}", lambda: _codec(root, version, cascade), KEPT_S)


def _tokenizer(root: str) -> TextTokenizer:
    return cached(f"tokenizer:{root}", lambda: _read(TextTokenizer.of_root, "root", root), KEPT_S)


def with_prompt(
    inputs: Sequence[InferInput], *, root: str, name: str | None = None
) -> tuple[InferInput, ...]:
    """The inputs for embeddings, with the prompt of this name before each text (None: the default one of the
    root, by its digest). Raises HmiError(invalid_field) for an unknown name."""
    config = _sentence_config(root)
    try:
        prompt = config.prompt(name)
    except KeyError:
        names = f"Its prompts: {', '.join(config.prompts)}." if config.prompts else "It has no prompts."
        raise invalid("prompt_name", f"The model's root has no prompt {str(name)[:64]!a}. {names}") from None
    return tuple(InferInput(f"{prompt}{given.text}") for given in inputs) if prompt else tuple(inputs)


def _sentence_config(root: str) -> SentenceConfig:
    return cached(f"sentence:{root}", lambda: _read(SentenceConfig.of_root, "root", root), KEPT_S)


def _codec(root: str, version: str, cascade: str) -> TextCodec:
    tokenizer = _tokenizer(root)
    names = _read(OutputNames.load, "hplm", version)
    profile = _read(CascadeProfile.load, *(("cascade", cascade) if cascade else ("hplm", version)))
    return TextCodec(tokenizer, names, profile, _has_tables(root))


def _codec_of_root(root: str) -> TextCodec:
    tokenizer = _sentence_config(root).tokenizer(_tokenizer(root))
    return TextCodec(tokenizer, None, tables=_has_tables(root))


def _has_tables(root: str) -> bool:
    return _read(root_has_tables, "root", root)


def _read(load: Callable[[Path], Part], kind: str, digest: str) -> Part:
    try:
        return load(ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path(kind, digest))
    except HplmError as error:
        raise HmiError(ErrorCode.INFERENCE_FAILED, error.message) from error


def encode(codec: TextCodec, inputs: Sequence[InferInput]) -> tuple[EncodedInput, ...]:
    """The inputs as token ids. Raises HmiError: what `TextCodec.encode` raises, or ``inference_failed`` for a
    text that breaks the tokenizer."""
    try:
        return codec.encode(inputs)
    except TooManyTokens as error:
        raise TooLongRefusal(
            ErrorCode(error.code), error.message, param="inputs", tokens_read=error.tokens_read
        ) from error
    except HplmError as error:
        raise HmiError(ErrorCode(error.code), error.message, param="inputs") from error
    except Exception as error:
        log.exception("Inputs cannot be tokenised")
        raise HmiError(ErrorCode.INFERENCE_FAILED, "The inputs cannot be tokenised.") from error


def token_sequences(encoded: Iterable[EncodedInput], *, task: str) -> tuple[TokenSequence, ...]:
    """One for each encoding of each input, in their order."""
    hashed = ((each.encodings, each.given.digest(HASH_BYTES)) for each in encoded)
    return tuple(_sequence(one, task, text_hash) for encodings, text_hash in hashed for one in encodings)


def outputs_of(received: Iterable[SequenceOutput]) -> list[Outputs]:
    """What came of each sequence. Raises ValueError for what is no list of numbers."""
    return [
        Outputs(
            np.frombuffer(output.values, "<f4"),
            np.frombuffer(output.token_levels, np.uint8) if output.token_levels else None,
            output.level,
            np.frombuffer(output.from_tables, "<f4") if output.from_tables else None,
        )
        for output in received
    ]


def _sequence(encoding: Encoding, task: str, text_hash: bytes) -> TokenSequence:
    asked = outputs_at(task, encoding)
    return TokenSequence(
        ids=encoding.ids.astype("<i4").tobytes(),
        types=encoding.types.astype(np.uint8).tobytes() if encoding.types.any() else b"",
        outputs_at=None if asked is None else asked.astype("<i4").tobytes(),
        text_hash=text_hash,
    )
