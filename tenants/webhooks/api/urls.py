"""URLs below ``/api/v1/``: webhook endpoints and deliveries."""

from django.urls import path

from tenants.webhooks.api.webhooks import (
    DeliveriesView,
    DeliveryReplayView,
    DeliveryView,
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
    path("webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>/replay", DeliveryReplayView.as_view()),
]
