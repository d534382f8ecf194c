"""The playground: send the same request to up to four models, and compare the answers.

The server sends infer requests to encoder models. Generative models are asked by the page's script: it calls
the API with the session of the user, and shows the answers while they are written.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import HttpResponseClientRedirect
from structlog.contextvars import bind_contextvars, get_contextvars

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.generation import GenerationForm
from frontend.forms.playground import ChosenModels, PlaygroundForm, chosen_models
from frontend.presenters.playground import Column, Examples, chat_columns, column_of, examples_of
from frontend.presenters.sample_calls import SampleCall, sample_calls
from frontend.shortcuts import render_page
from inference.api.infer import InferRun
from inference.api.pending_response import Outcome, respond_later
from inference.api.prepared_request import prepare_request
from inference.api.rates.limits import limits_of
from inference.api.rates.spending import spend
from inference.api.request_trace import RequestTrace
from inference.api.validation import InferCall
from inference.queueing.messages import InferReply
from tenants.accounts.models import Tenant
from tenants.base.errors import INTERNAL_MESSAGE, ErrorCode, HmiError
from tenants.datasets.models import Split, Task
from tenants.datasets.selectors.previews import dataset_first_rows
from tenants.usage.models import RequestApi
from versiontree.tree.selectors.callable_hplms import (
    CallableHplm,
    InputKind,
    answer_tokens,
    callable_bases,
    callable_hplms,
    training_dataset,
)

log = logging.getLogger(__name__)

Ending = InferReply | BaseException | None
"""The reply to a request, the error that it ended with, or nothing within its time."""
GENERATIVE: Final = "generative"
"""The field that tells the page for generative models."""


@require_GET
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """The form, with the models in the query."""
    tenant = request.access.tenant
    choice = chosen_models(tenant, request.GET)
    return _page(request, choice, _form(choice, initial=_generation_defaults(tenant, choice)))


@require_POST
@tenant_member_required()
def update(request: TenantRequest) -> HttpResponse:
    """Add or remove a model, or fill in an example. The other inputs are kept."""
    tenant = request.access.tenant
    choice = chosen_models(tenant, request.POST)
    url = f"{reverse('frontend:playground', args=[tenant.slug])}?{choice.query}"
    if request.htmx and choice.reads.is_generative != (GENERATIVE in request.POST):
        return HttpResponseClientRedirect(url)
    examples = _examples(tenant, choice)
    filled = request.POST.dict() | examples.filled(request.POST.get("example", ""))
    shown = _page(request, choice, _form(choice, initial=filled), examples=examples)
    shown["HX-Replace-Url"] = url
    return shown


@require_GET
@tenant_member_required()
def model_options(request: TenantRequest) -> HttpResponse:
    """Autocomplete model names. Only models with the same kind of input as the chosen ones are offered."""
    tenant = request.access.tenant
    offers = _other_models(tenant, chosen_models(tenant, _chosen_query(request)), request.GET.get("add", ""))
    return render_page(request, "playground/model_options.html", offers=offers)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that one model was sent, or the ``refusal`` that kept it from being sent."""

    number: int
    offer: CallableHplm
    calls: Sequence[SampleCall]
    given: Mapping[str, str]
    trace: RequestTrace
    run: InferRun | None = None
    refusal: HmiError | None = None

    async def wait(self) -> InferReply | None:
        """The reply. Raises HmiError if there is none."""
        return await self.run.wait() if self.run is not None else None

    def cancel(self) -> None:
        """Cancel the request if it has no reply."""
        if self.run is not None:
            self.run.cancel()

    def column(self, reply: Ending) -> Column:
        """The answer or error, which is recorded."""
        if self.run is None:
            return Column(self.number, self.offer, self.calls, refusal=self.refusal)
        try:
            with self.trace.recorded_on_error():
                answer = self.run.conclude(lambda: _reply_or_raise(reply))
            self.trace.record(200)
            return column_of(self.number, self.offer, self.calls, self.given, answer)
        except Exception as error:  # noqa: BLE001 - the answers of the other models are shown all the same
            return Column(self.number, self.offer, self.calls, refusal=_refusal_of(error))


@require_POST
@tenant_member_required()
def send(request: TenantRequest) -> HttpResponseBase:
    """Send the request to all chosen models, and show the answers or errors."""
    choice = chosen_models(request.access.tenant, request.POST)
    if choice.reads.is_generative:
        refusal = HmiError(ErrorCode.INVALID_FIELD, "This page needs JavaScript.")
        return _page(request, choice, _form(choice, request.POST), refusal=refusal)
    form = PlaygroundForm(choice.reads, request.POST)
    if not form.is_valid() or not choice.offers:
        return _answers(
            request, choice, form, refusal=HmiError(ErrorCode.INVALID_FIELD, _missing(form, choice))
        )
    sent = [_send_one(request, offer, form, number) for number, offer in enumerate(choice.offers, start=1)]

    async def wait() -> list[Ending]:
        return list(await asyncio.gather(*(each.wait() for each in sent), return_exceptions=True))

    def finish(outcome: Outcome[list[Ending]]) -> HttpResponse:
        try:
            replies = outcome()
        except HmiError as cancelled:
            replies = [cancelled for _ in sent]
        columns = [each.column(reply) for each, reply in zip(sent, replies, strict=True)]
        if codes := [str(column.refusal.code) for column in columns if column.refusal]:
            bind_contextvars(code=codes[0])
        return _answers(request, choice, form, columns=columns)

    def cancel() -> None:
        for each in sent:
            each.cancel()

    return respond_later(request, wait, finish, cancel=cancel)


def _answers(
    request: TenantRequest, choice: ChosenModels, form: PlaygroundForm, **context: Any
) -> HttpResponse:
    """The answers alone for a page that has the rest, else the whole page."""
    if request.htmx:
        return render_page(request, "playground/answers.html", **context)
    return _page(request, choice, form, **context)


def _reply_or_raise(reply: Ending) -> InferReply | None:
    if isinstance(reply, BaseException):
        raise reply
    return reply


def _refusal_of(error: Exception) -> HmiError:
    """The error as it is shown. An unexpected one is logged."""
    if isinstance(error, HmiError):
        return error
    log.error("a request of the playground failed", exc_info=error)
    return HmiError(ErrorCode.INTERNAL, INTERNAL_MESSAGE)


def _form(choice: ChosenModels, *args: Any, **kwargs: Any) -> PlaygroundForm | GenerationForm:
    if choice.reads.is_generative:
        return GenerationForm(choice.reads, *args, **kwargs)
    return PlaygroundForm(choice.reads, *args, **kwargs)


def _page(
    request: TenantRequest,
    choice: ChosenModels,
    form: PlaygroundForm | GenerationForm,
    examples: Examples | None = None,
    **context: Any,
) -> HttpResponse:
    tenant = request.access.tenant
    examples, offers = examples or _examples(tenant, choice), _other_models(tenant, choice)
    context |= {"choice": choice, "form": form, "offers": offers, "examples": examples}
    context["base"] = _base_of(choice, offers)
    if not choice.reads.is_generative:
        return render_page(request, "playground/page.html", **context)
    is_chat = choice.reads == InputKind.CHAT
    address = reverse("openai-chat-completions" if is_chat else "openai-completions")
    columns = chat_columns(request, tenant, choice.offers)
    context |= {"is_chat": is_chat, "completions_url": f"{address}?tenant={tenant.slug}", "columns": columns}
    return render_page(request, "playground/chat.html", **context)


def _examples(tenant: Tenant, choice: ChosenModels) -> Examples:
    """Return example rows: the test split of the first model's dataset."""
    dataset = training_dataset(tenant, choice.offers[0]) if choice.offers else None
    return examples_of(dataset, dataset_first_rows(dataset, Split.TEST) if dataset else [], choice.reads)


def _other_models(tenant: Tenant, choice: ChosenModels, words: str = "") -> list[CallableHplm]:
    chosen = {offer.reference for offer in choice.offers}
    kind = choice.reads if choice.offers else None
    found = [
        *callable_hplms(tenant, words=words, input_kind=kind),
        *callable_bases(tenant, words=words, input_kind=kind),
    ]
    return [offer for offer in found if offer.reference not in chosen]


def _base_of(choice: ChosenModels, offers: Sequence[CallableHplm]) -> CallableHplm | None:
    """The base model of the first model, if it can be added."""
    if choice.full or not choice.offers or choice.offers[0].is_base:
        return None
    root = choice.offers[0].root
    return next((offer for offer in offers if offer.is_base and offer.reference == root), None)


def _generation_defaults(tenant: Tenant, choice: ChosenModels) -> dict[str, Any]:
    """How the first model's answers were evaluated: without chance, and no longer than this."""
    if not choice.reads.is_generative or (tokens := answer_tokens(tenant, choice.offers[0])) is None:
        return {}
    return {"temperature": 0, "max_tokens": tokens}


def _chosen_query(request: TenantRequest) -> QueryDict:
    """Return the query without the model that is being typed."""
    query = request.GET.copy()
    query.pop("add", None)
    return query


def _missing(form: PlaygroundForm, choice: ChosenModels) -> str:
    if not choice.offers:
        return " ".join(choice.faults) or "Choose a model."
    labels = [str(form.fields[name].label) for name in form.errors]
    return f"Fill in {' and '.join(labels)}."


def _send_one(request: TenantRequest, offer: CallableHplm, form: PlaygroundForm, number: int) -> SentRequest:
    """Send the request to one model."""
    tenant, given, quality = request.access.tenant, form.given(), form.chosen_quality()
    embed = offer.task == Task.EMBEDDING
    inputs = [*given.values()] if embed else [given if len(given) > 1 else given["text"]]
    calls = sample_calls(request, tenant, offer, given=inputs, quality=quality)
    request_id = f"{get_contextvars()['request_id'][:60]}-{number}"
    trace = RequestTrace(RequestApi.PLAYGROUND, request_id, tenant, reference=offer.reference)
    sent = SentRequest(number, offer, calls, given, trace)
    try:
        with trace.recorded_on_error():
            spend(limits_of(tenant, None).requests)
            call = InferCall(model=offer.reference, inputs=inputs, quality=quality, explain=not embed)
            prepared = prepare_request(call, tenant=tenant, request_id=request_id, embed=embed)
            trace.set_prepared(prepared)
            run = InferRun(prepared, trace)
            run.submit()
    except Exception as error:  # noqa: BLE001 - the other models are asked all the same
        return replace(sent, refusal=_refusal_of(error))
    return replace(sent, run=run)
