"""Webhooks and their deliveries."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tenant import DEFAULT_OVERLAP, OVERLAPS, RotateForm, WebhookForm
from frontend.presenters.webhooks import delivery_rows
from frontend.shortcuts import paginate, redirect_to, render_page, run_action, submit_form
from tenants.accounts.models import Role
from tenants.webhooks.models import WebhookEndpoint
from tenants.webhooks.selectors import deliveries_of, delivery_of, webhook_of, webhooks_of
from tenants.webhooks.services.endpoints import webhook_create, webhook_delete, webhook_rotate, webhook_update
from tenants.webhooks.services.events import delivery_replay, webhook_test


@require_GET
@tenant_member_required(Role.DEVELOPER)
def index(request: TenantRequest) -> HttpResponse:
    """The list of webhooks, and the form for a new one."""
    return _index(request, WebhookForm())


@require_POST
@never_cache
@tenant_member_required(Role.DEVELOPER)
def create(request: TenantRequest) -> HttpResponse:
    """Create a webhook. Only this response shows its secret."""
    form = WebhookForm(request.POST)
    made = submit_form(form, lambda: _create(request, form))
    if made is None:
        return _index(request, form)
    endpoint, secret = made
    return _page(request, webhook_of(request.access.tenant, endpoint.pk), secret=secret)


@require_GET
@tenant_member_required(Role.DEVELOPER)
def page(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """The page of a webhook, with its deliveries."""
    return _page(request, webhook_of(request.access.tenant, endpoint_id))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def update(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Change the URL, events or description of a webhook."""
    endpoint, form = webhook_of(request.access.tenant, endpoint_id), WebhookForm(request.POST)
    updated = submit_form(form, lambda: _update(request, endpoint, form))
    if updated is not None:
        return redirect_to(request, "webhook", endpoint_id, message="Webhook saved.")
    return _page(request, endpoint, form=form)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def set_enabled(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Enable or disable a webhook."""
    endpoint, on = webhook_of(request.access.tenant, endpoint_id), request.POST.get("to") == "on"
    webhook_update(endpoint=endpoint, actor=request.user, enabled=on)
    return redirect_to(request, "webhook", endpoint_id, message=f"Webhook {'enabled' if on else 'disabled'}.")


@require_POST
@never_cache
@tenant_member_required(Role.DEVELOPER)
def rotate(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Replace the secret of a webhook. Only this response shows it."""
    endpoint, form = webhook_of(request.access.tenant, endpoint_id), RotateForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose how long the old secret stays valid.")
        return redirect_to(request, "webhook", endpoint_id)
    _, secret = webhook_rotate(endpoint=endpoint, overlap=form.overlap_time(), actor=request.user)
    return _page(request, webhook_of(request.access.tenant, endpoint_id), secret=secret)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def test(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Send a test event."""
    endpoint = webhook_of(request.access.tenant, endpoint_id)
    message = "Test event sent. Its result appears below."
    run_action(request, lambda: webhook_test(endpoint=endpoint, actor=request.user), message=message)
    return redirect_to(request, "webhook", endpoint_id)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def replay(request: TenantRequest, endpoint_id: UUID, delivery_id: UUID) -> HttpResponse:
    """Send an event again."""
    delivery = delivery_of(webhook_of(request.access.tenant, endpoint_id), delivery_id)
    message = "The event will be sent again."
    run_action(request, lambda: delivery_replay(delivery=delivery, actor=request.user), message=message)
    return redirect_to(request, "webhook", endpoint_id)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete(request: TenantRequest, endpoint_id: UUID) -> HttpResponse:
    """Delete a webhook with its log."""
    endpoint = webhook_of(request.access.tenant, endpoint_id)
    message = "Webhook deleted."
    if run_action(request, lambda: webhook_delete(endpoint=endpoint, actor=request.user), message=message):
        return redirect_to(request, "webhooks")
    return redirect_to(request, "webhook", endpoint_id)


def _create(request: TenantRequest, form: WebhookForm) -> tuple[WebhookEndpoint, str]:
    return webhook_create(tenant=request.access.tenant, actor=request.user, **form.values())


def _update(request: TenantRequest, endpoint: WebhookEndpoint, form: WebhookForm) -> WebhookEndpoint:
    return webhook_update(endpoint=endpoint, actor=request.user, **form.values())


def _index(request: TenantRequest, form: WebhookForm) -> HttpResponse:
    endpoints = webhooks_of(request.access.tenant)
    return render_page(request, "webhooks/index.html", endpoints=endpoints, form=form)


def _page(
    request: TenantRequest, endpoint: WebhookEndpoint, form: WebhookForm | None = None, **more: Any
) -> HttpResponse:
    initial = {"url": endpoint.url, "kinds": endpoint.kinds, "description": endpoint.description}
    page = paginate(request, deliveries_of(endpoint))
    deliveries = delivery_rows(page)
    return render_page(
        request,
        "webhooks/page.html",
        endpoint=endpoint,
        deliveries=deliveries,
        page=page,
        is_sending=any(row.is_waiting for row in deliveries),
        form=form or WebhookForm(initial=initial),
        overlaps=OVERLAPS,
        default_overlap=DEFAULT_OVERLAP,
        **more,
    )
