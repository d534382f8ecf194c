"""Serializers of tenants, members, invitations and API keys. The services check the content."""

from typing import Any, Final

from rest_framework import serializers

from tenants.accounts.models import ApiKey, Invitation, Membership, Role, Tenant
from tenants.accounts.services.api_keys import MAX_OVERLAP
from tenants.accounts.services.invitations import EmailStatus
from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.usage.models import Quota

SETTINGS: Final = ("checks_answers", "keeps_request_texts", "auto_rebase")
"""The settings of a tenant that its owners may change."""


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    """A tenant, with the role of the user."""

    role = serializers.CharField(read_only=True, default=None, allow_null=True)

    class Meta:
        model = Tenant
        fields = ("slug", "name", "role", "created_at", "suspended_at", *SETTINGS)
        read_only_fields = fields


class QuotaSerializer(serializers.ModelSerializer[Quota]):
    """The quota of a tenant."""

    class Meta:
        model = Quota
        fields = (
            "max_domains",
            "max_models",
            "max_storage_bytes",
            "max_requests_per_day",
            "max_active_jobs",
            "max_api_keys",
            "max_invitations_per_day",
        )
        read_only_fields = fields


class RatesSerializer(serializers.Serializer[Any]):
    """Rate limits per minute. 0 means unlimited."""

    requests_per_minute = serializers.IntegerField(help_text="Infer requests.")
    tokens_per_minute = serializers.IntegerField(help_text="Tokens of infer requests.")
    manage_per_minute = serializers.IntegerField(help_text="Other requests to the API.")


class ApiKeySerializer(serializers.ModelSerializer[ApiKey]):
    """An API key without its plaintext."""

    expires_at = serializers.DateTimeField(source="expiry_date", allow_null=True, read_only=True)
    created_at = serializers.DateTimeField(source="created", read_only=True)
    created_by = serializers.CharField(
        source="created_by.username", default=None, allow_null=True, read_only=True
    )
    replaces = serializers.CharField(source="replaces_id", read_only=True, allow_null=True)
    replaced_by = serializers.CharField(
        source="replaced_by.prefix", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = ApiKey
        fields: tuple[str, ...] = (
            "prefix",
            "name",
            "scopes",
            "created_by",
            "created_at",
            "expires_at",
            "last_used_at",
            "requests_per_minute",
            "tokens_per_minute",
            "revoked",
            "revoked_at",
            "replaces",
            "replaced_by",
        )
        read_only_fields = fields


class ApiKeyCreateSerializer(StrictSerializer):
    """A new API key."""

    name = serializers.CharField(max_length=50)
    scopes = serializers.ListField(child=serializers.CharField(), help_text="infer, manage")
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    requests_per_minute = serializers.IntegerField(
        required=False, allow_null=True, help_text="Requests of any kind, in addition to the tenant's limits."
    )
    tokens_per_minute = serializers.IntegerField(
        required=False, allow_null=True, help_text="Of infer requests with this key."
    )


class ApiKeyRotateSerializer(StrictSerializer):
    """How long the old key still works."""

    overlap_s = serializers.IntegerField(
        min_value=0,
        max_value=int(MAX_OVERLAP.total_seconds()),
        default=24 * 3600,
        help_text="Seconds for which both keys work; 0 revokes the old one at once.",
    )


class ApiKeyCreatedSerializer(ApiKeySerializer):
    """A new API key with its plaintext, which is shown only once."""

    key = serializers.CharField(read_only=True)

    class Meta(ApiKeySerializer.Meta):
        fields = (*ApiKeySerializer.Meta.fields, "key")
        read_only_fields = fields


class TenantChangeSerializer(StrictSerializer):
    """The settings that owners may change."""

    checks_answers = serializers.BooleanField(required=False)
    keeps_request_texts = serializers.BooleanField(required=False)
    auto_rebase = serializers.BooleanField(required=False)


class TenantDetailSerializer(serializers.Serializer[Any]):
    """A tenant with its quota, rate limits and usage."""

    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    suspended_at = serializers.DateTimeField(allow_null=True)
    checks_answers = serializers.BooleanField()
    keeps_request_texts = serializers.BooleanField()
    auto_rebase = serializers.BooleanField()
    quota = QuotaSerializer()
    rates = RatesSerializer()
    storage_used_bytes = serializers.IntegerField()
    requests_today = serializers.IntegerField()


class MemberSerializer(serializers.ModelSerializer[Membership]):
    """A member of the tenant."""

    username = serializers.CharField(source="user.username", read_only=True)
    email = serializers.CharField(source="user.email", read_only=True)
    since = serializers.DateTimeField(source="created_at", read_only=True)
    last_sign_in_at = serializers.DateTimeField(source="user.last_login", read_only=True, allow_null=True)

    class Meta:
        model = Membership
        fields = ("id", "username", "email", "role", "since", "last_sign_in_at")
        read_only_fields = fields


class MemberRoleSerializer(StrictSerializer):
    """The new role of a member."""

    role = serializers.CharField(help_text=", ".join(Role.values))


class MemberRemoveSerializer(serializers.Serializer[Any]):
    """Options of removing a member."""

    revoke_keys = serializers.BooleanField(default=False, help_text="Also revoke the member's keys.")


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """An invitation without its link, which is shown only when it is created."""

    invited_by = serializers.CharField(
        source="invited_by.username", default=None, allow_null=True, read_only=True
    )
    expired = serializers.BooleanField(source="is_expired", read_only=True)

    class Meta:
        model = Invitation
        fields: tuple[str, ...] = (
            "id",
            "email",
            "role",
            "state",
            "invited_by",
            "created_at",
            "expires_at",
            "expired",
        )
        read_only_fields = fields


class InvitationCreateSerializer(StrictSerializer):
    """A new invitation."""

    email = serializers.CharField(max_length=1000)
    role = serializers.CharField(help_text=", ".join(Role.values))


class InvitationCreatedSerializer(InvitationSerializer):
    """A new invitation with its link, which is shown only once."""

    link = serializers.CharField(read_only=True)
    mail = ChoiceField(choices=[kind.value for kind in EmailStatus], read_only=True)

    class Meta(InvitationSerializer.Meta):
        fields = (*InvitationSerializer.Meta.fields, "link", "mail")
        read_only_fields = fields
