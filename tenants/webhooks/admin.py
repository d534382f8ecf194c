"""Admin of webhook endpoints and deliveries, read-only."""

from typing import Any

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ReadOnlyAdmin, pretty_json
from tenants.webhooks.models import WebhookDelivery, WebhookEndpoint


@admin.register(WebhookEndpoint)
class WebhookAdmin(ReadOnlyAdmin):
    """Webhook endpoints. Secrets are not shown."""

    list_display = ("url", "tenant", "disabled_at", "failing_since", "created_by", "created_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_select_related = ("tenant", "created_by")
    search_fields = ("url", "tenant__slug")
    exclude = ("secret", "previous_secret")


@admin.register(WebhookDelivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Deliveries of events, with their attempts."""

    list_display = ("kind", "tenant", "endpoint", "state", "attempts", "next_attempt_at", "created_at")
    list_filter = ("state", "kind", ("tenant", AutocompleteSelectFilter))
    list_select_related = ("tenant", "endpoint")
    search_fields = ("event_id", "tenant__slug")
    exclude = ("payload", "attempt_log")
    readonly_fields = ("body", "attempt_results")

    @admin.display(description="Body")
    def body(self, delivery: WebhookDelivery) -> Any:
        """Return the payload as indented JSON."""
        return pretty_json(delivery.payload)

    @admin.display(description="Attempts")
    def attempt_results(self, delivery: WebhookDelivery) -> Any:
        """Return the attempt log as indented JSON."""
        return pretty_json(delivery.attempt_log)
