"""What is to be asked of the inference workers: a tenant's texts, once they are checked."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bind_contextvars

from inference.api.admission import Asking
from inference.api.inputs import GivenInput, check_inputs, fit_inputs
from inference.api.rates.limits import Limits, guess_tokens, limits_of
from inference.api.validation import check_miss_policy, check_reference, check_timeout
from inference.queueing.log_fields import request_fields
from inference.queueing.messages import InferInput, ModelRef
from inference.queueing.replies import How
from tenants.accounts.models import ApiKey, Tenant
from tenants.usage.services.quotas import quota_check_requests
from versiontree.tree.resolution import resolve_model_cached


@dataclass(frozen=True, slots=True)
class Question:
    """A request that nothing speaks against but the engine's own load: who asks whom what. ``key`` is the
    one it came with, if any; ``limits`` are those it counts against."""

    request_id: str
    tenant: Tenant
    key: ApiKey | None
    model: ModelRef
    texts: tuple[InferInput, ...]
    asking: Asking
    limits: Limits
    miss_policy: str | None
    explain: bool
    embed: bool

    @property
    def guessed_tokens(self) -> int:
        """What they may come to."""
        return guess_tokens(map(_characters, self.texts))

    @property
    def how(self) -> How:
        """What an `InferClient` is told of it, beyond model and texts."""
        return {
            "root": self.asking.root,
            "seconds": self.asking.seconds,
            "call": self.request_id,
            "miss_policy": self.miss_policy,
            "explain": self.explain,
            "embed": self.embed,
        }

    @property
    def told(self) -> dict[str, Any]:
        """What every line of the log about it says."""
        return {"tenant": self.tenant.slug, **request_fields(self.model, len(self.texts))}


def question(
    *,
    tenant: Tenant,
    reference: str,
    inputs: Sequence[str | Mapping[str, str] | GivenInput],
    timeout_s: float | None = None,
    request_id: str | None = None,
    miss_policy: str | None = None,
    explain: bool = False,
    embed: bool = False,
    key: ApiKey | None = None,
) -> Question:
    """What is to be asked of the inference workers: what `tenant`'s model `reference` says to each of
    `inputs`.

    An input is a text, or `{"text", "text_pair"}` or `{"question", "context"}` for a model that takes two.
    The caller has checked that whoever asks may act for the tenant, and may choose `miss_policy` if it is
    given. With `explain` each result says how each token was made; with `embed` it is the text's `embedding`,
    whatever the model's task is. Raises HmiError: bad input, `not_found`, `model_not_ready`,
    `quota_exceeded`.
    """
    request_id = request_id or uuid.uuid4().hex
    reference, seconds = check_reference(reference), check_timeout(timeout_s)
    given, policy = check_inputs(inputs), check_miss_policy(miss_policy)
    resolved = resolve_model_cached(tenant, reference)
    texts = fit_inputs(given, task="" if embed else resolved.task, pairs=resolved.pairs and not embed)
    quota_check_requests(tenant=tenant)
    model = ModelRef(resolved.tenant_slug, resolved.model_name, resolved.version_number, resolved.digest)
    asking = Asking(model.tenant, resolved.root_digest, resolved.root, seconds, tenant.weight)
    asked = Question(
        request_id, tenant, key, model, texts, asking, limits_of(tenant, key), policy, explain, embed
    )
    bind_contextvars(**asked.told)
    return asked


def _characters(given: InferInput) -> int:
    return len(given.text) + len(given.text_pair or "")
