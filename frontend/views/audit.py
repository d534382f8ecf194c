"""The audit log."""

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import csv_response
from frontend.forms.usage import AuditForm
from frontend.presenters.audit import audit_line, audit_row
from frontend.shortcuts import render_page
from tenants.accounts.models import Role
from tenants.audit.models import AuditEvent
from tenants.audit.selectors import audit_events_of
from tenants.base.row_ids import row_id

ROWS = 50
COLUMNS = ("at", "who", "verb", "subject", "address", "request_id", "detail")
LINES_PER_CHUNK = 2_000


@require_GET
@never_cache
@tenant_member_required(Role.OWNER)
def page(request: TenantRequest) -> HttpResponse:
    """Events with a lower id than `?before=`, newest first."""
    form = AuditForm(request.access.tenant, request.GET)
    found = list(_before(request, audit_events_of(request.access.tenant, form.filters()))[: ROWS + 1])
    rows = [audit_row(event) for event in found[:ROWS]]
    older = found[ROWS - 1].pk if len(found) > ROWS else None
    return render_page(request, "audit/page.html", form=form, rows=rows, older=older)


@require_GET
@tenant_member_required(Role.OWNER)
def rows_csv(request: TenantRequest) -> HttpResponseBase:
    """Download all events that match the filters."""
    tenant = request.access.tenant
    events = audit_events_of(tenant, AuditForm(tenant, request.GET).filters()).iterator(LINES_PER_CHUNK)
    return csv_response(f"audit-{tenant.slug}.csv", COLUMNS, map(audit_line, events))


def _before(request: TenantRequest, events: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
    """Return the events with a lower id than `?before=`; all if it is not an id."""
    before = row_id(request.GET.get("before", ""))
    return events.filter(pk__lt=before) if before else events
