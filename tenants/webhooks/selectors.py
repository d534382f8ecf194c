"""Queries for webhook endpoints and deliveries."""

from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from tenants.accounts.models import Tenant
from tenants.base.errors import require_found
from tenants.webhooks.models import DeliveryState, WebhookDelivery, WebhookEndpoint


def webhooks_of(tenant: Tenant) -> QuerySet[WebhookEndpoint]:
    """The tenant's endpoints, oldest first.

    Each has the number of waiting deliveries (``waiting``) and the time of the last delivery
    (``delivered_at``).
    """
    delivered = WebhookDelivery.objects.for_tenant(tenant).filter(state=DeliveryState.DELIVERED)
    newest = delivered.filter(endpoint=OuterRef("pk")).order_by("-finished_at").values("finished_at")[:1]
    rows = WebhookEndpoint.objects.for_tenant(tenant).select_related("created_by", "tenant")
    waiting = Count("deliveries", filter=Q(deliveries__state=DeliveryState.WAITING))
    return rows.annotate(waiting=waiting, delivered_at=Subquery(newest)).order_by("created_at", "id")


def webhook_of(tenant: Tenant, endpoint_id: UUID) -> WebhookEndpoint:
    """The tenant's endpoint with this id, annotated as in ``webhooks_of``, or ``not_found``."""
    return require_found(webhooks_of(tenant).filter(pk=endpoint_id).first(), "webhook", param="endpoint_id")


def deliveries_of(endpoint: WebhookEndpoint) -> QuerySet[WebhookDelivery]:
    """The deliveries to an endpoint, newest first."""
    rows = WebhookDelivery.objects.for_tenant(endpoint.tenant).filter(endpoint=endpoint)
    return rows.order_by("-created_at", "-id")


def delivery_of(endpoint: WebhookEndpoint, delivery_id: UUID) -> WebhookDelivery:
    """The delivery with this id, or ``not_found``."""
    row = deliveries_of(endpoint).select_related("endpoint__tenant").filter(pk=delivery_id).first()
    return require_found(row, "delivery", param="delivery_id")
