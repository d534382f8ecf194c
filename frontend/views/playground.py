"""The playground: send the same request to up to four models, and compare the answers.

The server sends infer requests to encoder models. Generative models are asked by the page's script: it calls
the API with the session of the user, and shows the answers while they are written.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final

from django.db import connection
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import HttpResponseClientRedirect
from structlog.contextvars import bind_contextvars, get_contextvars

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.generation import GenerationForm
from frontend.forms.playground import ChosenModels, PlaygroundForm, chosen_models
from frontend.presenters.playground import Column, Examples, chat_columns, column_of, examples_of
from frontend.presenters.snippets import snippets_of
from frontend.shortcuts import render_page
from inference.api.infer import infer
from inference.api.prepared_request import prepare_request
from inference.api.rates.limits import limits_of
from inference.api.rates.spending import spend
from inference.api.request_trace import RequestTrace
from inference.api.validation import InferCall
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Split
from tenants.datasets.selectors.previews import dataset_first_rows
from tenants.usage.models import RequestApi
from versiontree.tree.selectors.callable_hplms import (
    CallableHplm,
    InputKind,
    callable_hplms,
    training_dataset,
)

GENERATIVE: Final = "generative"
"""The field that tells the page for generative models."""


@require_GET
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """The form, with the models in the query."""
    choice = chosen_models(request.access.tenant, request.GET)
    return _page(request, choice, _form(choice))


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


@require_POST
@tenant_member_required()
def send(request: TenantRequest) -> HttpResponse:
    """Send the request to all chosen models in parallel, and show the answers or errors."""
    choice = chosen_models(request.access.tenant, request.POST)
    context: dict[str, Any] = {}
    if choice.reads.is_generative:
        context["refusal"] = HmiError(ErrorCode.INVALID_FIELD, "This page needs JavaScript.")
        return _page(request, choice, _form(choice, request.POST), **context)
    form = PlaygroundForm(choice.reads, request.POST)
    if not form.is_valid() or not choice.offers:
        context["refusal"] = HmiError(ErrorCode.INVALID_FIELD, _missing(form, choice))
    else:
        columns = context["columns"] = _send_all(request, choice.offers, form)
        if codes := [str(column.refusal.code) for column in columns if column.refusal]:
            bind_contextvars(code=codes[0])
    if request.htmx:
        return render_page(request, "playground/answers.html", **context)
    return _page(request, choice, form, **context)


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
    found = callable_hplms(tenant, words=words, input_kind=choice.reads if choice.offers else None)
    return [offer for offer in found if offer.reference not in chosen]


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


def _send_all(request: TenantRequest, offers: Sequence[CallableHplm], form: PlaygroundForm) -> list[Column]:
    """Send the request to all models in parallel; return a column per model, in their order."""
    if len(offers) == 1:
        return [_send_one(request, offers[0], form, 1)]

    def send_one(offer: CallableHplm, number: int) -> Column:
        try:
            return _send_one(request, offer, form, number)
        finally:
            connection.close()  # the connection of this thread

    with ThreadPoolExecutor(len(offers)) as threads:
        futures = [
            threads.submit(copy_context().run, send_one, offer, number)
            for number, offer in enumerate(offers, start=1)
        ]
        return [future.result() for future in futures]


def _send_one(request: TenantRequest, offer: CallableHplm, form: PlaygroundForm, number: int) -> Column:
    """Send the request to one model; return its answer or error."""
    tenant, given, quality = request.access.tenant, form.given(), form.chosen_quality()
    input_ = given if len(given) > 1 else given["text"]
    body = {"model": f"{tenant.slug}/{offer.reference}", "inputs": [input_]} | (
        {"quality": quality} if quality else {}
    )
    snippets = snippets_of(request.build_absolute_uri("/api/v1/infer"), body)
    request_id = f"{get_contextvars()['request_id'][:60]}-{number}"
    trace = RequestTrace(RequestApi.PLAYGROUND, request_id, tenant, reference=offer.reference)
    try:
        with trace.recorded():
            spend(limits_of(tenant, None).requests)
            call = InferCall(model=offer.reference, inputs=[input_], quality=quality, explain=True)
            prepared = prepare_request(call, tenant=tenant, request_id=request_id)
            trace.set_prepared(prepared)
            trace.answer = reply = infer(prepared)
    except HmiError as refusal:
        return Column(number, offer, snippets, refusal=refusal)
    return column_of(number, offer, snippets, given, reply)
