"""API of invitations: create, resend, withdraw. They are accepted on a page of the frontend."""

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.api.serializers import (
    InvitationCreatedSerializer,
    InvitationCreateSerializer,
    InvitationSerializer,
)
from tenants.accounts.models import Invitation, Role, User
from tenants.accounts.permissions import request_actor
from tenants.accounts.selectors import invitation_of, invitations_of
from tenants.accounts.services.invitations import (
    invitation_create,
    invitation_resend,
    invitation_send_email,
    invitation_withdraw,
)
from tenants.base.api.inputs import validated_body
from tenants.base.api.object_view import ObjectView


class InvitationBaseView(TenantView):
    """The base of the invitation views, for owners only: an invitation can create another owner."""

    serializer_class = InvitationSerializer
    queryset = Invitation.unscoped.none()
    read_role = Role.OWNER
    write_role = Role.OWNER
    keys_allowed = False

    @property
    def user(self) -> User:
        """The signed-in owner."""
        return cast("User", request_actor(self.request))

    def send(self, invitation: Invitation, token: str) -> Response:
        """Send the e-mail, and return the response with the invitation and its link."""
        link, email_status = invitation_send_email(
            invitation=invitation, token=token, build_url=self.request.build_absolute_uri
        )
        data = {**InvitationSerializer(invitation).data, "link": link, "mail": email_status}
        return Response(data, status=status.HTTP_201_CREATED)


class InvitationsView(InvitationBaseView):
    """The tenant's pending invitations."""

    @extend_schema(responses=InvitationSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List pending invitations, including expired ones."""
        page = self.paginate_queryset(invitations_of(self.tenant))
        return self.get_paginated_response(InvitationSerializer(page, many=True).data)

    @extend_schema(request=InvitationCreateSerializer, responses={201: InvitationCreatedSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Invite a member by e-mail."""
        data = validated_body(InvitationCreateSerializer, request)
        return self.send(*invitation_create(tenant=self.tenant, actor=self.user, **data))


class InvitationView(ObjectView, InvitationBaseView):
    """Get an invitation in any state."""

    def find_object(self, *, invitation_id: int, **_: Any) -> Invitation:
        return invitation_of(self.tenant, invitation_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Withdraw an invitation."""
        invitation_withdraw(invitation=self.find_object(**kwargs), actor=self.user)
        return Response(status=status.HTTP_204_NO_CONTENT)


class InvitationResendView(InvitationBaseView):
    """Resend an invitation. A new one with a new link replaces it."""

    @extend_schema(request=None, responses={201: InvitationCreatedSerializer})
    def post(self, request: Request, invitation_id: int, **_: Any) -> Response:
        invitation = invitation_of(self.tenant, invitation_id)
        return self.send(*invitation_resend(invitation=invitation, actor=self.user))
