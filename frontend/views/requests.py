"""The request log of a tenant."""

from itertools import chain

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import csv_stream_response
from frontend.forms.requests import RequestsForm
from frontend.presenters.requests import CSV_COLUMNS, omitted_note, request_line, request_row
from frontend.shortcuts import render_page
from tenants.accounts.selectors import api_keys_of
from tenants.base.errors import ErrorCode
from tenants.base.row_ids import row_id
from tenants.usage.request_selectors import omitted_requests, request_batches, requests_of

ROWS = 50
KEYS_OFFERED = 200
LINES_PER_CHUNK = 2_000


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
@tenant_member_required()
def rows_csv(request: TenantRequest) -> HttpResponseBase:
    """Download all requests that match the filters."""
    tenant = request.access.tenant
    batches = request_batches(tenant, _form(request).filters(), batch_size=LINES_PER_CHUNK)
    lines = map(request_line, chain.from_iterable(batches))
    return csv_stream_response(f"requests-{tenant.slug}.csv", CSV_COLUMNS, lines)


def _form(request: TenantRequest) -> RequestsForm:
    keys = api_keys_of(request.access.tenant).values_list("prefix", "name")
    return RequestsForm(request.GET, dict(keys[:KEYS_OFFERED]))


def _before(request: TenantRequest) -> int | None:
    return row_id(request.GET.get("before", "")) or None
