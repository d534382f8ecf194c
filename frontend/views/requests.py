"""The request log of a tenant."""

from difflib import get_close_matches
from itertools import chain

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import csv_stream_response
from frontend.forms.requests import RequestsForm
from frontend.presenters.requests import (
    CSV_COLUMNS,
    hint_of,
    may_be_corrected,
    omitted_note,
    request_line,
    request_row,
)
from frontend.presenters.sample_calls import sample_calls
from frontend.shortcuts import render_page
from frontend.views.added_rows import has_input_rows
from tenants.accounts.models import Tenant
from tenants.accounts.selectors import api_keys_of
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.row_ids import row_id
from tenants.usage.models import LoggedRequest
from tenants.usage.request_selectors import omitted_requests, request_batches, requests_of
from versiontree.tree.selectors.callable_hplms import CallableHplm, callable_hplm, callable_hplms
from versiontree.tree.selectors.versions import hplm_of, hplm_version

ROWS = 50
KEYS_OFFERED = 200
LINES_PER_CHUNK = 2_000
MODELS_COMPARED = 200
"""How many names of models are compared with one that does not exist."""


@require_GET
@never_cache
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """Requests with a lower id than `?before=`, newest first."""
    tenant, form = request.access.tenant, _form(request)
    filters = form.filters()
    rows = requests_of(tenant, filters)
    if (before := _before(request)) is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: ROWS + 1])
    return render_page(
        request,
        "requests/page.html",
        form=form,
        rows=[request_row(one) for one in found[:ROWS]],
        older=found[ROWS - 1].pk if len(found) > ROWS else None,
        omitted=omitted_note(omitted_requests(tenant, filters.since, filters.until)),
        days=settings.HMI_REQUEST_LOG_DAYS,
        codes=[str(code) for code in ErrorCode],
    )


@require_GET
@never_cache
@tenant_member_required()
def one(request: TenantRequest, pk: int) -> HttpResponse:
    """A request: why it has no answer, and a call of its model that has one."""
    tenant = request.access.tenant
    entry = requests_of(tenant).filter(pk=pk).first()
    if entry is None:
        raise HmiError(
            ErrorCode.NOT_FOUND, "This request is not in the log. Entries are deleted after some days."
        )
    offer = _model_to_call(tenant, entry) if may_be_corrected(entry) else None
    return render_page(
        request,
        "requests/request.html",
        row=request_row(entry),
        hint=hint_of(entry),
        offer=offer,
        can_add=request.access.can_write and _has_input_rows(tenant, entry),
        calls=sample_calls(request, tenant, offer) if offer else [],
    )


@require_GET
@tenant_member_required()
def rows_csv(request: TenantRequest) -> HttpResponseBase:
    """Download all requests that match the filters."""
    tenant = request.access.tenant
    batches = request_batches(tenant, _form(request).filters(), batch_size=LINES_PER_CHUNK)
    lines = map(request_line, chain.from_iterable(batches))
    return csv_stream_response(f"requests-{tenant.slug}.csv", CSV_COLUMNS, lines)


def _has_input_rows(tenant: Tenant, entry: LoggedRequest) -> bool:
    """Whether the log keeps inputs of the request that a dataset can have as rows."""
    if not entry.texts or not entry.version:
        return False
    try:
        hplm = hplm_of(tenant, entry.model_name)
        return has_input_rows(hplm, hplm_version(hplm, entry.version).config)
    except HmiError:
        return False


def _form(request: TenantRequest) -> RequestsForm:
    keys = api_keys_of(request.access.tenant).values_list("prefix", "name")
    return RequestsForm(request.GET, dict(keys[:KEYS_OFFERED]))


def _model_to_call(tenant: Tenant, entry: LoggedRequest) -> CallableHplm | None:
    """Return the model that was asked; if there is none, the one with the most similar name, else any."""
    asked = entry.model_name or entry.reference.rpartition("/")[2]
    offers = {offer.reference: offer for offer in callable_hplms(tenant, limit=MODELS_COMPARED)}
    for reference in filter(None, (entry.reference.rpartition("/")[2], entry.model_name)):
        try:
            return callable_hplm(tenant, reference)
        except HmiError:
            continue
    similar = get_close_matches(asked, offers, n=1)
    return offers[similar[0]] if similar else next(iter(offers.values()), None)


def _before(request: TenantRequest) -> int | None:
    return row_id(request.GET.get("before", "")) or None
