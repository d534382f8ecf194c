"""The webhooks of a tenant, and what was sent there."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.forms.tenant import SECRET_OVERLAPS, USUAL_OVERLAP, WebhookForm, WebhookRotateForm
from frontend.pages import act, attempt, go, page_of, show
from frontend.presenters.webhooks import delivery_rows, webhook_row, webhook_rows
from tenants.accounts.models import Role
from tenants.webhooks.models import WebhookEndpoint
from tenants.webhooks.selectors import deliveries_of, delivery_of, webhook_of, webhooks_of
from tenants.webhooks.services.endpoints import webhook_change, webhook_create, webhook_delete, webhook_rotate
from tenants.webhooks.services.events import delivery_replay, webhook_test


@require_GET
@tenant_page(Role.DEVELOPER)
def index(request: TenantRequest) -> HttpResponse:
    """The webhooks, and a form for another."""
    return _index(request, WebhookForm())


@require_POST
@never_cache
@tenant_page(Role.DEVELOPER)
def create(request: TenantRequest) -> HttpResponse:
    """Make a webhook; this one answer shows its secret, and nothing ever does again."""
    form = WebhookForm(request.POST)
    made = attempt(form, lambda: _create(request, form)) if form.is_valid() else None
    if made is None:
        return _index(request, form)
    endpoint, secret = made
    return _page(request, webhook_of(request.place.tenant, endpoint.pk), secret=secret)


@require_GET
@tenant_page(Role.DEVELOPER)
def page(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """One webhook, with the log of what was sent there."""
    return _page(request, webhook_of(request.place.tenant, endpoint_id))


@require_POST
@tenant_page(Role.DEVELOPER)
def change(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Another address, other events."""
    endpoint, form = webhook_of(request.place.tenant, endpoint_id), WebhookForm(request.POST)
    changed = attempt(form, lambda: _change(request, endpoint, form)) if form.is_valid() else None
    if changed is not None:
        return go(request, "webhook", endpoint_id, said="The webhook is changed.")
    return _page(request, endpoint, form=form)


@require_POST
@tenant_page(Role.DEVELOPER)
def switch(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Turn it on, or off."""
    endpoint, on = webhook_of(request.place.tenant, endpoint_id), request.POST.get("to") == "on"
    webhook_change(endpoint=endpoint, actor=request.user, enabled=on)
    return go(request, "webhook", endpoint_id, said=f"The webhook is {'on' if on else 'off'}.")


@require_POST
@never_cache
@tenant_page(Role.DEVELOPER)
def rotate(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Another secret; this one answer shows it."""
    endpoint, form = webhook_of(request.place.tenant, endpoint_id), WebhookRotateForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose for how long the old secret goes on.")
        return go(request, "webhook", endpoint_id)
    _, secret = webhook_rotate(endpoint=endpoint, overlap=form.overlap_time(), actor=request.user)
    return _page(request, webhook_of(request.place.tenant, endpoint_id), secret=secret)


@require_POST
@tenant_page(Role.DEVELOPER)
def test(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Send a test event."""
    endpoint = webhook_of(request.place.tenant, endpoint_id)
    said = "A test is on its way. Load the page again to see what came of it."
    act(request, lambda: webhook_test(endpoint=endpoint, actor=request.user), said=said)
    return go(request, "webhook", endpoint_id)


@require_POST
@tenant_page(Role.DEVELOPER)
def replay(request: TenantRequest, endpoint_id: UUID, delivery_id: UUID) -> HttpResponse:
    """Send an event once more."""
    delivery = delivery_of(webhook_of(request.place.tenant, endpoint_id), delivery_id)
    said = "The event is sent again."
    act(request, lambda: delivery_replay(delivery=delivery, actor=request.user), said=said)
    return go(request, "webhook", endpoint_id)


@require_POST
@tenant_page(Role.DEVELOPER)
def delete(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Delete it, with its log."""
    endpoint = webhook_of(request.place.tenant, endpoint_id)
    said = "The webhook is deleted."
    if act(request, lambda: webhook_delete(endpoint=endpoint, actor=request.user), said=said):
        return go(request, "webhook", endpoint_id)
    return go(request, "webhooks")


def _create(request: TenantRequest, form: WebhookForm) -> tuple[WebhookEndpoint, str]:
    return webhook_create(tenant=request.place.tenant, actor=request.user, **form.asked())


def _change(request: TenantRequest, endpoint: WebhookEndpoint, form: WebhookForm) -> WebhookEndpoint:
    return webhook_change(endpoint=endpoint, actor=request.user, **form.asked())


def _index(request: TenantRequest, form: WebhookForm) -> HttpResponse:
    rows = webhook_rows(webhooks_of(request.place.tenant))
    return show(request, "webhooks/index.html", rows=rows, form=form)


def _page(
    request: TenantRequest, endpoint: WebhookEndpoint, form: WebhookForm | None = None, **more: Any
) -> HttpResponse:
    shown = {"url": endpoint.url, "kinds": endpoint.kinds, "description": endpoint.description}
    page = page_of(request, deliveries_of(endpoint))
    return show(
        request,
        "webhooks/page.html",
        endpoint=endpoint,
        webhook=webhook_row(endpoint),
        deliveries=delivery_rows(page),
        page=page,
        form=form or WebhookForm(initial=shown),
        overlaps=SECRET_OVERLAPS,
        usual_overlap=USUAL_OVERLAP,
        **more,
    )
