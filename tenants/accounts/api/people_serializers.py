"""What the API takes and shows of members and invitations."""

from typing import Any

from rest_framework import serializers

from tenants.accounts.models import Invitation, Membership, Role
from tenants.accounts.services.invitation_mail import Delivery
from tenants.base.api.strict_input import StrictInput


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


class MemberRoleSerializer(StrictInput):
    """Another role."""

    role = serializers.CharField(help_text=", ".join(Role.values))


class MemberRemoveSerializer(serializers.Serializer[Any]):
    """What else ends with the membership."""

    revoke_keys = serializers.BooleanField(default=False, help_text="Also those that the member made.")


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """An invitation; its link is shown when it is made, and never again."""

    invited_by = serializers.CharField(
        source="invited_by.username", default=None, allow_null=True, read_only=True
    )
    expired = serializers.BooleanField(source="has_run_out", read_only=True)

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


class InvitationCreateSerializer(StrictInput):
    """Who is invited, as what."""

    email = serializers.CharField(max_length=1000)
    role = serializers.CharField(help_text=", ".join(Role.values))


class InvitationMadeSerializer(InvitationSerializer):
    """A new invitation with its link, shown this once."""

    link = serializers.CharField(read_only=True)
    mail = serializers.ChoiceField(choices=[kind.value for kind in Delivery], read_only=True)

    class Meta(InvitationSerializer.Meta):
        fields = (*InvitationSerializer.Meta.fields, "link", "mail")
        read_only_fields = fields
