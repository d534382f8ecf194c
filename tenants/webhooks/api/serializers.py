"""What the API takes and shows of webhooks."""

from typing import Any

from rest_framework import serializers

from tenants.base.api.inputs import StrictSerializer
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
    """An endpoint; its secret is shown when it is made, and never again."""

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
    """An endpoint with its new secret, shown this once."""

    secret = serializers.CharField(read_only=True)

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")
        read_only_fields = fields


class WebhookCreateSerializer(StrictSerializer):
    """Where to send what."""

    url = serializers.CharField(
        max_length=MAX_URL_LENGTH, help_text="An https address on the public internet."
    )
    kinds = serializers.ListField(child=serializers.CharField(), help_text=KINDS)
    description = serializers.CharField(
        max_length=MAX_DESCRIPTION_LENGTH, required=False, default="", allow_blank=True
    )


class WebhookChangeSerializer(StrictSerializer):
    """What is given is changed."""

    url = serializers.CharField(max_length=MAX_URL_LENGTH, required=False)
    kinds = serializers.ListField(child=serializers.CharField(), required=False, help_text=KINDS)
    description = serializers.CharField(max_length=MAX_DESCRIPTION_LENGTH, required=False, allow_blank=True)
    enabled = serializers.BooleanField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Something."""
        if not attrs:
            raise serializers.ValidationError("Say what to change: url, kinds, description or enabled.")
        return attrs


class WebhookRotateSerializer(StrictSerializer):
    """For how long the secret before signs as well."""

    overlap_s = serializers.IntegerField(
        min_value=0,
        max_value=int(MAX_OVERLAP.total_seconds()),
        default=int(DEFAULT_OVERLAP.total_seconds()),
        help_text="Seconds for which requests are signed with both secrets; 0 ends the old one at once.",
    )


class DeliveryAttemptSerializer(serializers.Serializer[Any]):
    """What came of one try."""

    at = serializers.DateTimeField()
    ms = serializers.IntegerField(help_text="How long it took.")
    status = serializers.IntegerField(allow_null=True, help_text="Of the answer; null: there was none.")
    error = serializers.CharField(allow_blank=True, help_text="Why it counts as failed, or empty.")
    excerpt = serializers.CharField(allow_blank=True, help_text="The beginning of the answer's body.")


class DeliverySerializer(serializers.ModelSerializer[WebhookDelivery]):
    """One event on its way to one endpoint, with what came of each try."""

    kind = serializers.ChoiceField(choices=EventKind.choices, read_only=True)
    state = serializers.ChoiceField(choices=DeliveryState.choices, read_only=True)
    tries = DeliveryAttemptSerializer(many=True, read_only=True)
    payload = serializers.DictField(read_only=True, help_text="The body that is sent.")

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
            "tries",
            "payload",
        )
        read_only_fields = fields
