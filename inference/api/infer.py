"""Infer requests: runs a prepared one (`InferRun`), composes its answer or error from the worker's reply, and
counts it. The REST views and the pages call this."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import InterfaceError, OperationalError
from msgspec import to_builtins
from structlog.contextvars import bind_contextvars

from inference.api.admission import gateway, reaching_the_queue
from inference.api.level_checks import check_sample
from inference.api.pending_response import Outcome
from inference.api.prepared_request import PreparedRequest, answered_name, outputs_of
from inference.api.rates.spending import refund, spend
from inference.api.request_trace import RequestTrace
from inference.api.schema import AnsweredBy, InferAnswer
from inference.api.submitter import Submission, submitter
from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import AnswerPolicy, Level
from inference.number_format import format_seconds
from inference.queueing.log_fields import reply_fields
from inference.queueing.messages import InferReply, ModelRef, PlotCounts
from inference.text.codec import TextCodec
from inference.text.encodings import EncodedInput
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from tenants.usage.models import RequestStatus
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record, usage_record

log = logging.getLogger(__name__)

NOT_READY_RETRY_S: Final = 2
_KNOWN_CODES: Final = frozenset(code.value for code in ErrorCode)


class InferRun:
    """One request on its way: `submit` in a thread, `wait` on an event loop, `conclude` in a thread.

    ``trace`` gets the answer.
    """

    def __init__(self, prepared: PreparedRequest, trace: RequestTrace) -> None:
        self._prepared, self._trace = prepared, trace
        self._counted = self._reserved = False
        self._submission: Submission

    def submit(self) -> None:
        """Count the request against its limits, and send it off. Raises HmiError: `rate_limited` or
        `quota_exceeded`; then nothing is counted."""
        release_database()
        prepared = self._prepared
        self._counted = spend(prepared.limits.tokens, prepared.tokens)
        try:
            self._reserved = spend([prepared.daily])
            self._submission = submitter().submit(prepared)
        except BaseException as error:
            self._refund(error)
            raise

    async def wait(self) -> InferReply | None:
        """The worker's reply; None if none came in time. Raises HmiError if nothing was accepted: `conflict`,
        `worker_unavailable` or `queue_full`."""
        return await self._submission.reply()

    def cancel(self) -> None:
        """Cancel the request if it has no reply. For any thread; returns at once."""
        self._submission.cancel()

    def conclude(self, outcome: Outcome[InferReply | None]) -> InferAnswer:
        """The answer, as the JSON value that clients get, from the outcome of `wait`. Raises HmiError: what
        `wait` raised, `cancelled`, `deadline_exceeded`, and whatever the worker reports."""
        try:
            self._trace.answer = answer = conclude(self._prepared, outcome())
        except BaseException as error:
            self._submission.cancel()
            self._refund(error)
            raise
        return answer

    def _refund(self, error: BaseException) -> None:
        prepared = self._prepared
        if self._counted and is_free(error):
            refund(prepared.limits.tokens, prepared.tokens)
        if self._reserved and not is_of_today(error):
            refund([prepared.daily], 1)


def is_free(error: BaseException) -> bool:
    """Whether the tokens of a request that ended so are given back: those of all but what ran out of time,
    which may have been computed."""
    return not (isinstance(error, HmiError) and error.code is ErrorCode.DEADLINE_EXCEEDED)


def is_of_today(error: BaseException) -> bool:
    """Whether a request that ended so counts in the quota of the day, as in the usage: not if it was
    refused."""
    if isinstance(error, HmiError):
        return RequestStatus.of(str(error.code)) is RequestStatus.FAILED
    return isinstance(error, Exception)


def conclude(prepared: PreparedRequest, reply: InferReply | None) -> InferAnswer:
    """The JSON value of the answer, once the request is counted. Raises HmiError: ``deadline_exceeded``
    without a reply, or what the reply says."""
    if reply is None:
        _count(prepared, None, None)
        message = f"The request timed out after {format_seconds(prepared.admission.seconds)}."
        raise HmiError(ErrorCode.DEADLINE_EXCEEDED, message)
    bind_contextvars(**reply_fields(reply))
    answer = None
    try:
        if (
            failure := failure_of(reply, asked=prepared.model, sequences=len(prepared.sequences))
        ) is not None:
            raise failure
        answer = answer_of(prepared, reply)
    finally:
        _count(prepared, reply, answer)
    check_sample(prepared, answer["results"])
    return answer


def cancel(*, tenant: Tenant, request_id: str) -> bool:
    """Whether the tenant's request had no answer yet: it has one now, `cancelled`. Raises HmiError when the
    queue cannot be reached."""
    with reaching_the_queue():
        return gateway().client.queue.cancel(tenant.slug, request_id)


def _count(prepared: PreparedRequest, reply: InferReply | None, answer: Mapping[str, Any] | None) -> None:
    """Count an answer, and what computing took. Requests without an answer are counted by their trace.

    What was computed is answered, also when the database has gone meanwhile and nothing can be counted.
    """
    answered = answer is not None and reply is not None
    try:
        usage_record(
            tenant=prepared.tenant,
            model_name=prepared.model.hplm,
            requests=int(answered),
            inputs=len(prepared.encoded),
            tokens=prepared.tokens if answered else 0,
            key_prefix=prepared.key.prefix if prepared.key else "",
            busy_ms=reply.timings_ms.busy if reply else 0.0,
        )
        if answer is None or reply is None:
            return
        answers_record(
            tenant=prepared.tenant,
            model_name=prepared.model.hplm,
            version=prepared.model.version,
            count=count_answers(prepared.codec, prepared.plan, answer["results"], reply.plot),
        )
    except (OperationalError, InterfaceError) as error:
        log.error(
            "A request of %s for %s was not counted: %s", prepared.model.tenant, prepared.model.hplm, error
        )


def count_answers(
    codec: TextCodec, plan: AnswerPlan, results: Sequence[Mapping[str, Any]], plot: PlotCounts
) -> AnswerCount:
    """The counts of the results of one request. Embeddings count for nothing: nobody is sure of them.

    A cascade with a target of its own escalates as that asks for; only what the version's own choice decided
    counts as decided by the cascade.
    """
    if codec.names is None:
        return AnswerCount()
    by_cascade = plan.dispatcher is not None and plan == codec.plan(AnswerPolicy.CASCADE)
    return AnswerCount(
        requests=1,
        texts=len(results),
        table_texts=len(results) if plan.level is Level.TABLE else 0,
        confidence=sum(first_confidence(one) for one in results),
        cascade_texts=len(results) if by_cascade else 0,
        escalated_texts=sum(went_on(one) for one in results) if by_cascade else 0,
        whole=plot.trigram,
        part=plot.bigram,
        unigram=plot.unigram,
    )


def went_on(result: Mapping[str, Any]) -> bool:
    """Whether the tables answered first, and the text went on to the level FULL."""
    return "table" in result


def first_confidence(result: Mapping[str, Any]) -> float:
    """The calibrated probability of the level that read the text first; 0.0 of a number, which has none."""
    return float(result.get("table", result).get("confidence", 0.0))


def answer_of(prepared: PreparedRequest, reply: InferReply) -> InferAnswer:
    """The JSON value of a good answer; it names the exact version that gave it. Raises HmiError where the
    numbers make no prediction."""
    model = reply.model
    answered_by: AnsweredBy = {
        "name": answered_name(model, root=prepared.admission.root),
        "version": model.version,
        "digest": model.digest,
        "number_format": reply.number_format,
    }
    if prepared.cascade:
        answered_by["cascade"] = prepared.cascade
    return {
        "id": prepared.request_id,
        "model": answered_by,
        "results": results_of(prepared.codec, prepared.encoded, reply, prepared.plan),
        "usage": {
            "inputs": len(prepared.encoded),
            "tokens": prepared.tokens,
            "truncated": sum(each.truncated for each in prepared.encoded),
        },
        "plot": {
            "trigram": reply.plot.trigram,
            "bigram": reply.plot.bigram,
            "unigram": reply.plot.unigram,
            "hit_ratio": hit_ratio(reply.plot),
        },
        "batch": {"rows": reply.batch.rows, "tenants": reply.batch.tenants},
        "timings_ms": to_builtins(reply.timings_ms),
    }


def results_of(
    codec: TextCodec, encoded: Sequence[EncodedInput], reply: InferReply, plan: AnswerPlan
) -> list[dict[str, Any]]:
    """The result of each input. Raises HmiError(inference_failed) where the numbers make no prediction."""
    try:
        return codec.results(encoded, outputs_of(reply.outputs), plan)
    except Exception as error:
        log.exception("The reply to %s cannot be read", reply.id)
        message = "The model returned an invalid output."
        raise HmiError(ErrorCode.INFERENCE_FAILED, message) from error


def hit_ratio(counts: PlotCounts) -> float | None:
    """The share of the fragments that the tables had whole; None where there were none to be looked up."""
    fragments = counts.trigram + counts.bigram + counts.unigram
    return round(counts.trigram / fragments, 4) if fragments else None


def failure_of(reply: InferReply, *, asked: ModelRef, sequences: int) -> HmiError | None:
    """Why the reply is no answer to so many sequences for the model `asked`; None when it is one."""
    if not reply.ok:
        return _error_of(reply, asked)
    if reply.model != asked or len(reply.outputs) != sequences:
        log.critical("Request %s for %s was answered by %s", reply.id, asked, reply.model)
        message = "The response came from another model and was discarded."
        return HmiError(ErrorCode.INFERENCE_FAILED, message)
    return None


def _error_of(reply: InferReply, asked: ModelRef) -> HmiError:
    if reply.error is None or reply.error.code not in _KNOWN_CODES:
        return HmiError(ErrorCode.INFERENCE_FAILED, "The model could not process the request.")
    code = ErrorCode(reply.error.code)
    if code is ErrorCode.NOT_FOUND:
        # It was there a moment ago, when it was resolved: the worker has yet to hear of it.
        message = f"{asked.hplm}:{asked.version} is not loaded yet. Try again in a moment."
        return HmiError(ErrorCode.MODEL_NOT_READY, message, param="model", retry_after=NOT_READY_RETRY_S)
    return HmiError(code, reply.error.message)
