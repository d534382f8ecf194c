"""The playground: the same infer request to one model or several, side by side."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from django.db import connection
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from structlog.contextvars import bind_contextvars, get_contextvars

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.playground import PLACES, Choice, PlaygroundForm, choice_of
from frontend.presenters.playground import Column, TriedWith, column_of, tried_with
from frontend.presenters.snippets import snippets_of
from frontend.shortcuts import render_page
from inference.api.infer import infer
from inference.api.question import question
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Split
from tenants.datasets.selectors.previews import dataset_first_rows
from versiontree.tree.selectors.callable_hplms import CallableHplm, callable_hplms, training_dataset


@require_GET
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """The texts to fill in, with the models that the address names."""
    choice = choice_of(request.access.tenant, request.GET)
    return _page(request, choice, PlaygroundForm(choice.reads))


@require_POST
@tenant_member_required()
def choose(request: TenantRequest) -> HttpResponse:
    """One model more or less, while what was written stays; or a row of its dataset in place of that."""
    tenant = request.access.tenant
    choice = choice_of(tenant, request.POST)
    tried = _tried_with(tenant, choice)
    kept = {name: request.POST.get(name, "") for name in PLACES}
    filled = kept | tried.filled(request.POST.get("example", ""))
    shown = _page(request, choice, PlaygroundForm(choice.reads, initial=filled), tried=tried)
    shown["HX-Replace-Url"] = f"{reverse('frontend:try', args=[tenant.slug])}?{choice.query}"
    return shown


@require_GET
@tenant_member_required()
def models(request: TenantRequest) -> HttpResponse:
    """What could be meant by the beginning of a name, and reads what those read that are chosen already."""
    tenant = request.access.tenant
    offers = _offers_beside(tenant, choice_of(tenant, _named(request)), request.GET.get("add", ""))
    return render_page(request, "playground/offers.html", offers=offers)


@require_POST
@tenant_member_required()
def answer(request: TenantRequest) -> HttpResponse:
    """Ask all at the same time; the answers, or typed refusals, replace those that stood there."""
    choice = choice_of(request.access.tenant, request.POST)
    form = PlaygroundForm(choice.reads, request.POST)
    context: dict[str, Any] = {}
    if not form.is_valid() or not choice.offers:
        context["refusal"] = HmiError(ErrorCode.INVALID_FIELD, _missing(form, choice))
    else:
        columns = context["columns"] = _ask_all(request, choice.offers, form.given())
        if codes := [str(column.refusal.code) for column in columns if column.refusal]:
            bind_contextvars(code=codes[0])
    if request.htmx:
        return render_page(request, "playground/answers.html", **context)
    return _page(request, choice, form, **context)


def _page(
    request: TenantRequest,
    choice: Choice,
    form: PlaygroundForm,
    tried: TriedWith | None = None,
    **context: Any,
) -> HttpResponse:
    tenant = request.access.tenant
    tried, offers = tried or _tried_with(tenant, choice), _offers_beside(tenant, choice)
    return render_page(
        request, "playground/page.html", choice=choice, form=form, offers=offers, tried=tried, **context
    )


def _tried_with(tenant: Tenant, choice: Choice) -> TriedWith:
    """Rows of the dataset that the first model learned from, of its test split."""
    dataset = training_dataset(tenant, choice.offers[0]) if choice.offers else None
    return tried_with(dataset, dataset_first_rows(dataset, Split.TEST) if dataset else [], choice.reads)


def _offers_beside(tenant: Tenant, choice: Choice, words: str = "") -> list[CallableHplm]:
    chosen = {offer.reference for offer in choice.offers}
    found = callable_hplms(tenant, words=words, input_kind=choice.reads if choice.offers else None)
    return [offer for offer in found if offer.reference not in chosen]


def _named(request: TenantRequest) -> QueryDict:
    """The models that are chosen, without the one that is being looked for."""
    named = request.GET.copy()
    named.pop("add", None)
    return named


def _missing(form: PlaygroundForm, choice: Choice) -> str:
    if not choice.offers:
        return " ".join(choice.faults) or "Choose a model."
    labels = [str(form.fields[name].label) for name in form.errors]
    return f"Fill in {' and '.join(labels)}."


def _ask_all(request: TenantRequest, offers: Sequence[CallableHplm], given: dict[str, str]) -> list[Column]:
    """One column for each, in their order; the slowest decides how long it takes."""
    if len(offers) == 1:
        return [_ask(request, offers[0], given, 1)]

    def ask(offer: CallableHplm, number: int) -> Column:
        try:
            return _ask(request, offer, given, number)
        finally:
            connection.close()  # this thread's own

    with ThreadPoolExecutor(len(offers)) as threads:
        begun = [
            threads.submit(copy_context().run, ask, offer, number)
            for number, offer in enumerate(offers, start=1)
        ]
        return [one.result() for one in begun]


def _ask(request: TenantRequest, offer: CallableHplm, given: dict[str, str], number: int) -> Column:
    """The answer of one; a refusal is its own alone."""
    tenant = request.access.tenant
    input_ = given if len(given) > 1 else given["text"]
    body = {"model": f"{tenant.slug}/{offer.reference}", "inputs": [input_]}
    snippets = snippets_of(request.build_absolute_uri("/api/v1/infer"), body)
    try:
        asked = question(
            tenant=tenant,
            reference=offer.reference,
            inputs=[input_],
            request_id=f"{get_contextvars()['request_id'][:60]}-{number}",
            explain=True,
        )
        reply = infer(asked)
    except HmiError as refusal:
        return Column(number, offer, snippets, refusal=refusal)
    return column_of(number, offer, snippets, given, reply)
