"""``/api/v1/``: webhooks, and the log of what was sent to them."""

from django.urls import path

from tenants.webhooks.api.webhooks import (
    DeliveriesView,
    DeliveryView,
    ReplayView,
    WebhookRotateView,
    WebhooksView,
    WebhookTestView,
    WebhookView,
)

in_tenant = [
    path("webhooks", WebhooksView.as_view()),
    path("webhooks/<uuid:endpoint_id>", WebhookView.as_view()),
    path("webhooks/<uuid:endpoint_id>/rotate", WebhookRotateView.as_view()),
    path("webhooks/<uuid:endpoint_id>/test", WebhookTestView.as_view()),
    path("webhooks/<uuid:endpoint_id>/deliveries", DeliveriesView.as_view()),
    path("webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>", DeliveryView.as_view()),
    path("webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>/replay", ReplayView.as_view()),
]
