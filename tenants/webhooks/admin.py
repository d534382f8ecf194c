"""Webhooks: tenants make them, staff look."""

from typing import Any

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ReadOnlyAdmin, pretty_json
from tenants.webhooks.models import WebhookDelivery, WebhookEndpoint


@admin.register(WebhookEndpoint)
class WebhookAdmin(ReadOnlyAdmin):
    """Where tenants hear of events. Secrets are shown to nobody."""

    list_display = ("url", "tenant", "disabled_at", "failing_since", "created_by", "created_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "created_by")
    search_fields = ("url", "tenant__slug")
    exclude = ("secret", "previous_secret")


@admin.register(WebhookDelivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """What was sent, and what came of it."""

    list_display = ("kind", "tenant", "endpoint", "state", "attempts", "next_attempt_at", "created_at")
    list_filter = ("state", "kind", ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("tenant", "endpoint")
    search_fields = ("event_id", "tenant__slug")
    exclude = ("payload", "tries")
    readonly_fields = ("sent", "came_of_it")

    @admin.display(description="Body")
    def sent(self, delivery: WebhookDelivery) -> Any:
        """What is sent."""
        return pretty_json(delivery.payload)

    @admin.display(description="Tries")
    def came_of_it(self, delivery: WebhookDelivery) -> Any:
        """What came of each try."""
        return pretty_json(delivery.tries)
