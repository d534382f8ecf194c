"""A request for completions, once its prompts are token ids; and the codec of each decoder root."""

import logging
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from django.conf import settings
from structlog.contextvars import bind_contextvars

from inference.api.admission import AdmissionRequest
from inference.api.prepared_request import version_for
from inference.api.rates.limits import DailyLimit, Limits, daily_limit, limits_of
from inference.api.rates.spending import TooLongRefusal, reading_texts
from inference.api.validation import invalid
from inference.errors import HplmError
from inference.generation.requests import MAX_SEED, SamplingParams
from inference.openai.chat_messages import located
from inference.openai.choices import Choice
from inference.openai.generation_requests import ChatCall, CompletionCall, GenerationCall
from inference.openai.request_fields import shown
from inference.queueing.log_fields import request_fields
from inference.queueing.messages import ModelRef, TokenSequence
from inference.queueing.transport import tenant_capacity
from inference.text.chat_template import ChatTemplate
from inference.text.encode import TooManyTokens
from inference.text.encodings import InferInput
from inference.text.generative_codec import GenerativeCodec
from tenants.accounts.models import ApiKey, Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.resolution import require_generative, resolve_model_cached

log = logging.getLogger(__name__)

KEPT_S: Final = math.inf
"""Artifacts never change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedCompletion:
    """A request for completions as token ids.

    prompts: each has ``sampling``'s choices one after another, prompt by prompt. stop_strings: what ends a
    choice. is_continuation: whether a choice's text goes on where the prompt ends, as a message does not.
    ignored: the fields of the request that were ignored, as the answer lists them.
    """

    codec: GenerativeCodec
    prompts: tuple[tuple[int, ...], ...]
    sampling: tuple[SamplingParams, ...]
    stop_strings: tuple[str, ...]
    is_continuation: bool
    ignored: tuple[str, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts; each counts once, however many choices it has."""
        return sum(map(len, self.prompts))

    def prompt_of(self, index: int) -> tuple[int, ...]:
        """The prompt of the choice of this number."""
        return self.prompts[index * len(self.prompts) // len(self.sampling)]

    def sequence_of(self, index: int) -> TokenSequence:
        """The same, as the engine gets it."""
        return TokenSequence(ids=np.asarray(self.prompt_of(index), "<i4").tobytes())

    def choice(self, index: int) -> Choice:
        """The choice of this number, of which there are no tokens yet."""
        return Choice(
            index,
            self.codec.detokenizer,
            after=self.prompt_of(index) if self.is_continuation else (),
            stop_strings=self.stop_strings,
            stop_tokens=self.codec.stop_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCompletion(EncodedCompletion):
    """A request for completions that nothing speaks against but the engine's own load.

    key: the one it came with, if any. limits, daily: those it counts against.
    """

    request_id: str
    tenant: Tenant
    key: ApiKey | None
    model: ModelRef
    admission: AdmissionRequest
    limits: Limits
    daily: DailyLimit


def prepare_completion(
    call: GenerationCall, *, tenant: Tenant, key: ApiKey | None, request_id: str
) -> PreparedCompletion:
    """Resolve the model of the call for `tenant`, choose between an alias's version and its canary, and
    tokenise the prompts.

    The caller has checked that whoever asks may act for the tenant. Raises HmiError: `invalid_field` (a model
    that writes no text, a root that cannot chat, a prompt that does not fit, messages that the chat template
    refuses), `not_found`, `model_not_ready`, `quota_exceeded`, `rate_limited`, `inference_failed`.
    """
    _check_choices(call)
    named = require_generative(resolve_model_cached(tenant, call.model), chat=isinstance(call, ChatCall))
    daily = daily_limit(tenant)
    resolved = version_for(named, [InferInput(text) for text in texts_of(call)])
    limits = limits_of(tenant, key)
    with reading_texts(limits.tokens):
        encoded = encode_completion(call, root=resolved.root_digest)
    prepared = PreparedCompletion(
        request_id=request_id,
        tenant=tenant,
        key=key,
        model=ModelRef(resolved.tenant_slug, resolved.model_name, resolved.version_number, resolved.digest),
        admission=AdmissionRequest(
            resolved.tenant_slug,
            resolved.root_digest,
            resolved.root,
            float(settings.HMI_GENERATION_DEADLINE_S),
            tenant.weight,
        ),
        daily=daily,
        limits=limits,
        **{field.name: getattr(encoded, field.name) for field in fields(encoded)},
    )
    told = request_fields(prepared.model, inputs=len(prepared.prompts), tokens=prepared.prompt_tokens)
    bind_contextvars(tenant=tenant.slug, **told)
    return prepared


def _check_choices(call: GenerationCall) -> None:
    """Raises HmiError(invalid_field) for more choices than the queue ever has room for of one tenant."""
    limit = tenant_capacity(settings.HMI_INFER_CAPACITY)
    if call.choices > limit:
        message = (
            f"{call.choices} choices are asked for. Of one tenant at most {limit} can wait at a time on this "
            "server. Send several requests."
        )
        raise invalid("n", message, max_choices=limit)


def encode_completion(call: GenerationCall, *, root: str) -> EncodedCompletion:
    """Tokenise the prompts of the call for a model of the decoder root with this digest. Raises HmiError:
    `invalid_field` (a prompt that does not fit, messages that the chat template refuses),
    `inference_failed`."""
    codec = generative_codec(root)
    prompts = _encode(codec, call)
    return EncodedCompletion(
        codec=codec,
        prompts=prompts,
        sampling=_sampling(call, codec, prompts),
        stop_strings=call.stop_strings,
        is_continuation=isinstance(call, CompletionCall),
        ignored=shown([*call.ignored, *_unused_by_template(codec, call)]),
    )


def generative_codec(root: str) -> GenerativeCodec:
    """The codec of the decoder root with this digest. Raises HmiError: `inference_failed` if the artifact
    cannot be read, `unsupported_checkpoint` if its tokenizer or chat template cannot be used."""
    return cached(f"generative-codec:{root}", lambda: _read_codec(root), KEPT_S)


def check_chat_template(folder: Path) -> None:
    """Raises HmiError(unsupported_checkpoint) if the chat template in the folder of a checkpoint fails."""
    try:
        ChatTemplate.of_root(folder).check()
    except HplmError as error:
        raise _of_root(error, param="source") from error


def _read_codec(root: str) -> GenerativeCodec:
    try:
        return GenerativeCodec.of_root(ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", root))
    except HplmError as error:
        if error.code == ErrorCode.UNSUPPORTED_CHECKPOINT:  # registered before this was checked
            raise _of_root(error, param="model") from error
        raise HmiError(ErrorCode.INFERENCE_FAILED, error.message) from error


def _of_root(error: HplmError, *, param: str) -> HmiError:
    message = f"{error.message[:1].upper()}{error.message[1:]}."
    return HmiError(ErrorCode.UNSUPPORTED_CHECKPOINT, message, param=param)


def texts_of(call: GenerationCall) -> Sequence[str]:
    """The messages of a chat, or the prompts."""
    if isinstance(call, ChatCall):
        return [message.content for message in call.messages]
    assert isinstance(call, CompletionCall)
    return call.prompt


def _encode(codec: GenerativeCodec, call: GenerationCall) -> tuple[tuple[int, ...], ...]:
    """The prompts. Behind the first that does not fit, none is read."""
    prompts: list[tuple[int, ...]] = []
    limit = codec.max_tokens - 1
    try:
        if isinstance(call, ChatCall):
            values = call.template_values or {}
            text = codec.prompts.render_chat(call.messages, now=datetime.now(UTC), values=values)
            prompts.append(tuple(codec.prompts.encode_rendered(text, limit=limit)))
        else:
            prompts.extend(tuple(codec.prompts.encode_text(text, limit=limit)) for text in texts_of(call))
    except TooManyTokens as error:
        raise _too_long(call, codec, error, read=error.tokens_read + sum(map(len, prompts))) from error
    except HplmError as error:
        raise located(error) from error
    except Exception as error:
        log.exception("Prompts cannot be tokenised")
        raise HmiError(ErrorCode.INFERENCE_FAILED, "The prompt cannot be tokenised.") from error
    return tuple(prompts)


def _too_long(
    call: GenerationCall, codec: GenerativeCodec, error: TooManyTokens, *, read: int
) -> TooLongRefusal:
    limit = codec.max_tokens
    found = f"more than {limit - 1:,}" if error.tokens is None else f"{error.tokens:,}"
    known = {} if error.tokens is None else {"prompt_tokens": error.tokens}
    return TooLongRefusal(
        ErrorCode.INVALID_FIELD,
        f"The prompt has {found} tokens; the context of this model has {limit:,}, and an answer needs one.",
        param=_prompt_field(call),
        tokens_read=read,
        max_context=limit,
        **known,
    )


def _prompt_field(call: GenerationCall) -> str:
    return "messages" if isinstance(call, ChatCall) else "prompt"


def _unused_by_template(codec: GenerativeCodec, call: GenerationCall) -> list[str]:
    """The values for the chat template that it has no variables for."""
    values = (call.template_values or {}) if isinstance(call, ChatCall) else {}
    unused = values.keys() - codec.prompts.template_variables
    whole = ["chat_template_kwargs"] if unused and len(unused) == len(values) else []
    return whole or [f"chat_template_kwargs.{name}" for name in sorted(unused)]


def _sampling(
    call: GenerationCall, codec: GenerativeCodec, prompts: Sequence[Sequence[int]]
) -> tuple[SamplingParams, ...]:
    seed = secrets.randbelow(MAX_SEED)
    asked: dict[str, Any] = {"seed": seed, "stop_tokens": codec.stop_tokens}
    per_prompt, read = call.choices // len(prompts), sum(map(len, prompts))
    return tuple(
        call.sampling(max_tokens, choice=choice, **asked)
        for max_tokens in [_max_tokens(call, codec, len(prompt), read=read) for prompt in prompts]
        for choice in range(per_prompt)
    )


def _max_tokens(call: GenerationCall, codec: GenerativeCodec, prompt: int, *, read: int) -> int:
    """How many tokens are generated at most behind a prompt of so many. ``read``: the tokens of all prompts.
    Raises HmiError(invalid_field) if they do not fit."""
    if not prompt:
        raise invalid(_prompt_field(call), "The prompt has no tokens.")
    room = codec.max_tokens - prompt
    if call.max_tokens is not None and call.max_tokens > room:
        raise TooLongRefusal(
            ErrorCode.INVALID_FIELD,
            f"The prompt has {prompt:,} tokens, and the answer up to {call.max_tokens:,}; the context of this"
            f" model has {codec.max_tokens:,}.",
            param="max_tokens",
            tokens_read=read,
            prompt_tokens=prompt,
            max_context=codec.max_tokens,
        )
    return room if call.max_tokens is None else call.max_tokens
