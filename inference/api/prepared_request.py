"""A tenant's infer request, once it is checked and its texts are token ids."""

import uuid
from dataclasses import dataclass
from typing import Any, Final

from structlog.contextvars import bind_contextvars

from inference.api.admission import AdmissionRequest
from inference.api.codecs import encode, text_codec, token_sequences
from inference.api.rates.limits import Limits, limits_of
from inference.api.validation import InferCall, fit_inputs
from inference.queueing.log_fields import request_fields
from inference.queueing.messages import MissPolicyName, ModelRef, TokenSequence
from inference.queueing.replies import How
from inference.text.codec import TextCodec
from inference.text.encodings import EncodedInput, InferInput
from tenants.accounts.models import ApiKey, Tenant
from tenants.base.ttl_cache import require_thread
from tenants.usage.services.quotas import quota_check_requests
from versiontree.tree.resolution import resolve_model_cached

LONG_CHARACTERS: Final = 20_000
"""Tokenising more than this takes milliseconds, which an event loop has not."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that nothing speaks against but the engine's own load. ``key`` is the one it came with, if
    any; ``limits`` are those it counts against; ``sequences`` are what the engine gets, and ``encoded`` and
    ``codec`` what its outputs are read with. ``tokens``: of all sequences, with the special ones and those
    that windows share."""

    request_id: str
    tenant: Tenant
    key: ApiKey | None
    model: ModelRef
    codec: TextCodec
    encoded: tuple[EncodedInput, ...]
    sequences: tuple[TokenSequence, ...]
    tokens: int
    admission: AdmissionRequest
    limits: Limits
    miss_policy: MissPolicyName | None
    explain: bool

    @property
    def how(self) -> How:
        """What an `InferClient` is told of it, beyond model and sequences."""
        return {
            "root": self.admission.root,
            "seconds": self.admission.seconds,
            "call": self.request_id,
            "miss_policy": self.miss_policy,
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
    limits: Limits | None = None,
    request_id: str | None = None,
    embed: bool = False,
) -> PreparedRequest:
    """Resolve the model of the call for `tenant`, and tokenise its inputs.

    The caller has checked that whoever asks may act for the tenant, and may choose a miss policy if the call
    has one. `limits` are those of tenant and key, where they are known. With `embed` each result is the
    text's `embedding`, whatever the model's task is. Raises HmiError: inputs that are not those of the model,
    `not_found`, `model_not_ready`, `quota_exceeded`; and CacheMiss within ``cached_only`` where something is
    not cached or the texts are long.
    """
    resolved = resolve_model_cached(tenant, call.model)
    texts = fit_inputs(call.inputs, task="" if embed else resolved.task, pairs=resolved.pairs and not embed)
    quota_check_requests(tenant=tenant)
    if sum(map(_characters, texts)) > LONG_CHARACTERS:
        require_thread("long texts")
    codec = text_codec(root=resolved.root_digest, version=resolved.digest, embed=embed)
    encoded = encode(codec, texts)
    sequences = token_sequences(encoded, task=codec.task)
    prepared = PreparedRequest(
        request_id or uuid.uuid4().hex,
        tenant,
        key,
        ModelRef(resolved.tenant_slug, resolved.model_name, resolved.version_number, resolved.digest),
        codec,
        encoded,
        sequences,
        sum(map(len, sequences)),
        AdmissionRequest(
            resolved.tenant_slug, resolved.root_digest, resolved.root, call.seconds, tenant.weight
        ),
        limits or limits_of(tenant, key),
        call.miss_policy,
        call.explain,
    )
    bind_contextvars(**prepared.log_fields)
    return prepared


def _characters(given: InferInput) -> int:
    return len(given.text) + len(given.text_pair or "")
