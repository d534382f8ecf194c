"""Collects the facts of an infer request, from its arrival to its answer: for its tenant's request log, and
for the counts of refused and failed requests."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import InterfaceError, OperationalError

from inference.api.prepared_request import PreparedRequest
from inference.cascade.answer_plan import AnswerPlan
from inference.queueing.messages import ModelRef
from inference.text.prediction_result import LEVEL_WORDS
from tenants.accounts.models import ApiKey, Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import RequestApi, RequestStatus
from tenants.usage.models.requests import MAX_MODEL_NAME
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.request_log import RequestEntry, kept_text, shown_reference
from tenants.usage.services.usage import answers_record, request_record, usage_record

log = logging.getLogger(__name__)

CASCADE: Final = "cascade"


@dataclass(slots=True)
class RequestTrace:
    """One request. ``reference`` is the model that was asked for, ``model`` the version that this meant.
    ``error`` is why it has no answer. ``is_prediction``: it counts among the answers of its version.

    ``deferred``: the response is a stream, whose end records the request. ``texts`` stays None unless the
    tenant keeps them.
    """

    api: RequestApi
    request_id: str
    tenant: Tenant | None = None
    key_prefix: str = ""
    reference: str = ""
    model: ModelRef | None = None
    plan: AnswerPlan | None = None
    inputs: int = 0
    tokens: int = 0
    generated_tokens: int = 0
    answer: Mapping[str, Any] | None = None
    texts: list[str] | None = None
    deferred: bool = False
    error: HmiError | None = None
    is_prediction: bool = True
    _begun: float = field(default_factory=time.perf_counter)
    _is_recorded: bool = False

    def set_key(self, key: ApiKey | None) -> None:
        """Set the tenant and the key, if the request came with one."""
        if key is not None:
            self.tenant, self.key_prefix = key.tenant, key.prefix

    def set_prepared(self, prepared: PreparedRequest) -> None:
        """Set what is known once the version is found and the texts are token ids."""
        self.tenant, self.plan = prepared.tenant, prepared.plan
        self.reference = prepared.reference or self.reference
        self.is_prediction = prepared.codec.names is not None
        self.set_key(prepared.key)
        self.set_model(prepared.model, inputs=len(prepared.encoded), tokens=prepared.tokens)
        self.keep_texts(
            lambda: [_text_of(each.given.text, each.given.text_pair) for each in prepared.encoded]
        )

    def set_model(self, model: ModelRef, *, inputs: int, tokens: int) -> None:
        """Set the version, and the number of inputs and tokens that it reads."""
        self.model, self.inputs, self.tokens = model, inputs, tokens

    def keep_texts(self, texts: Callable[[], Sequence[str]]) -> None:
        """Keep the beginning of each text, if the tenant wants that."""
        if self.tenant is not None and self.tenant.keeps_request_texts:
            self.texts = [kept_text(text) for text in texts()]

    def record(self, status: int, code: str = "") -> None:
        """Add the request to its tenant's log, if that is known, and count it if it has no answer.
        ``code`` is that of the error that ended it. Called again it does nothing."""
        if self.tenant is None or self._is_recorded:
            return
        self._is_recorded = True
        seconds = time.perf_counter() - self._begun
        try:
            self._count(self.tenant, RequestStatus.of(code))
            request_record(self._entry(self.tenant, status, code, round(1000 * seconds, 2)))
        except (OperationalError, InterfaceError) as error:
            log.error("The request %s was not logged for its tenant: %s", self.request_id, error)

    def _count(self, tenant: Tenant, outcome: RequestStatus) -> None:
        """Count a request that was refused or failed. Answered ones are counted with what they took."""
        if outcome is RequestStatus.ANSWERED:
            return
        failed = int(outcome is RequestStatus.FAILED)
        name = self.model.hplm if self.model else ""
        usage_record(
            tenant=tenant,
            model_name=name,
            key_prefix=self.key_prefix,
            requests=failed,
            failed=failed,
            refused=1 - failed,
        )
        if failed and self.model and self.is_prediction:
            count = AnswerCount(requests=1, failed=1)
            answers_record(tenant=tenant, model_name=name, version=self.model.version, count=count)

    @contextmanager
    def recorded_on_error(self) -> Iterator[None]:
        """Record the request with the error that leaves the block."""
        try:
            yield
        except HmiError as error:
            self.error = error
            self.record(error.status, str(error.code))
            raise
        except Exception:
            self.record(500, str(ErrorCode.INTERNAL))
            raise

    def _entry(self, tenant: Tenant, status: int, code: str, latency_ms: float) -> RequestEntry:
        name, version = self._asked()
        entry = RequestEntry(
            tenant_id=tenant.pk,
            request_id=self.request_id,
            api=self.api.value,
            status=status,
            error_code=code,
            reference=shown_reference(self.reference),
            model_name=name,
            version=version,
            key_prefix=self.key_prefix,
            latency_ms=latency_ms,
            inputs=self.inputs,
            tokens=self.tokens + self.generated_tokens,
            generated_tokens=self.generated_tokens,
            texts=self.texts,
        )
        if code and self.error is not None:
            entry.set_error(self.error)
        if self.answer is not None:
            self._add_answer(entry, self.answer)
        return entry

    def _add_answer(self, entry: RequestEntry, answer: Mapping[str, Any]) -> None:
        levels = Counter(word for result in answer["results"] if (word := result.get("level")))
        by_cascade = self.plan is not None and self.plan.dispatcher is not None
        if by_cascade or len(levels) > 1:
            entry.level = CASCADE
        else:
            entry.level = next(iter(levels), LEVEL_WORDS[self.plan.level] if self.plan else "")
        entry.inputs, entry.tokens = answer["usage"]["inputs"], answer["usage"]["tokens"]
        entry.details = {"levels": levels, "timings_ms": answer["timings_ms"]}

    def _asked(self) -> tuple[str, int | None]:
        """The model's name and version, as far as they are known."""
        if self.model is not None:
            return self.model.hplm, self.model.version
        if self.answer is not None:  # one kept under an idempotency key
            return self.answer["model"]["name"].rpartition("/")[2], self.answer["model"]["version"]
        return self._shown_reference(), None

    def _shown_reference(self) -> str:
        """The reference without the tenant's own name, an alias or a version."""
        shown = self.reference if self.reference.isprintable() else ""
        if self.tenant is not None:
            shown = shown.removeprefix(f"{self.tenant.slug}/")
        return shown.partition("@")[0].partition(":")[0][:MAX_MODEL_NAME]


def _text_of(text: str, pair: str | None) -> str:
    return text if pair is None else f"{text}\n{pair}"
