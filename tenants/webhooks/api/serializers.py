"""Serializers of webhook endpoints and deliveries."""

from typing import Any

from rest_framework import serializers

from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.webhooks.models import (
    MAX_URL_LENGTH,
    SUBSCRIBABLE,
    DeliveryState,
    EventKind,
    WebhookDelivery,
    WebhookEndpoint,
)
from tenants.webhooks.services.endpoints import DEFAULT_OVERLAP, MAX_DESCRIPTION_LENGTH, MAX_OVERLAP

KINDS = ", ".join(SUBSCRIBABLE)


class WebhookSerializer(serializers.ModelSerializer[WebhookEndpoint]):
    """An endpoint without its secret, which is shown only when it is created."""

    kinds = serializers.ListField(child=serializers.CharField(), help_text=KINDS)
    enabled = serializers.BooleanField(source="is_enabled", read_only=True)
    created_by = serializers.CharField(
        source="created_by.username", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = WebhookEndpoint
        fields: tuple[str, ...] = (
            "id",
            "url",
            "kinds",
            "description",
            "enabled",
            "disabled_at",
            "disabled_reason",
            "failing_since",
            "previous_until",
            "created_by",
            "created_at",
        )
        read_only_fields = fields


class WebhookWithSecretSerializer(WebhookSerializer):
    """An endpoint with its new secret, which is shown only once."""

    secret = serializers.CharField(read_only=True)

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")
        read_only_fields = fields


class WebhookCreateSerializer(StrictSerializer):
    """A new endpoint."""

    url = serializers.CharField(
        max_length=MAX_URL_LENGTH, help_text="An https address on the public internet."
    )
    kinds = serializers.ListField(child=serializers.CharField(), help_text=KINDS)
    description = serializers.CharField(
        max_length=MAX_DESCRIPTION_LENGTH, required=False, default="", allow_blank=True
    )


class WebhookChangeSerializer(StrictSerializer):
    """The fields to change."""

    url = serializers.CharField(max_length=MAX_URL_LENGTH, required=False)
    kinds = serializers.ListField(child=serializers.CharField(), required=False, help_text=KINDS)
    description = serializers.CharField(max_length=MAX_DESCRIPTION_LENGTH, required=False, allow_blank=True)
    enabled = serializers.BooleanField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse an empty change."""
        if not attrs:
            raise serializers.ValidationError("Give at least one of url, kinds, description and enabled.")
        return attrs


class WebhookRotateSerializer(StrictSerializer):
    """How long the previous secret signs as well."""

    overlap_s = serializers.IntegerField(
        min_value=0,
        max_value=int(MAX_OVERLAP.total_seconds()),
        default=int(DEFAULT_OVERLAP.total_seconds()),
        help_text="Seconds for which requests are signed with both secrets; 0 ends the old one at once.",
    )


class DeliveryAttemptSerializer(serializers.Serializer[Any]):
    """The result of one attempt."""

    at = serializers.DateTimeField()
    ms = serializers.IntegerField(help_text="How long it took.")
    status = serializers.IntegerField(allow_null=True, help_text="HTTP status; null without a response.")
    error = serializers.CharField(allow_blank=True, help_text="Why it failed; empty if it succeeded.")
    excerpt = serializers.CharField(allow_blank=True, help_text="The beginning of the response body.")


class DeliverySerializer(serializers.ModelSerializer[WebhookDelivery]):
    """The delivery of one event to one endpoint, with the results of its attempts."""

    kind = ChoiceField(choices=EventKind.choices, read_only=True)
    state = ChoiceField(choices=DeliveryState.choices, read_only=True)
    attempt_log = DeliveryAttemptSerializer(many=True, read_only=True)
    payload = serializers.DictField(read_only=True, help_text="The body of the request.")

    class Meta:
        model = WebhookDelivery
        fields = (
            "id",
            "event_id",
            "kind",
            "state",
            "attempts",
            "next_attempt_at",
            "created_at",
            "finished_at",
            "attempt_log",
            "payload",
        )
        read_only_fields = fields
