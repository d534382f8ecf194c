"""Invitations: owners make, send again and withdraw them. They are accepted on a page, not here."""

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
    invitation_deliver,
    invitation_resend,
    invitation_withdraw,
)
from tenants.base.api.conditional import ConditionalView
from tenants.base.api.inputs import validated_body


class InvitationBaseView(TenantView):
    """For owners alone, and no keys: an invitation makes an owner, too."""

    serializer_class = InvitationSerializer
    queryset = Invitation.unscoped.none()
    read_role = Role.OWNER
    write_role = Role.OWNER
    keys_allowed = False

    @property
    def person(self) -> User:
        """Who invites."""
        return cast("User", request_actor(self.request))

    def made(self, invitation: Invitation, token: str) -> Response:
        """The invitation with its link, which is sent now."""
        link, delivery = invitation_deliver(
            invitation=invitation, token=token, site=self.request.build_absolute_uri
        )
        shown = dict(InvitationSerializer(invitation).data)
        return Response(shown | {"link": link, "mail": delivery}, status=status.HTTP_201_CREATED)


class InvitationsView(InvitationBaseView):
    """Those that wait."""

    @extend_schema(responses=InvitationSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        page = self.paginate_queryset(invitations_of(self.tenant))
        return self.get_paginated_response(InvitationSerializer(page, many=True).data)

    @extend_schema(request=InvitationCreateSerializer, responses={201: InvitationCreatedSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        data = validated_body(InvitationCreateSerializer, request)
        return self.made(*invitation_create(tenant=self.tenant, actor=self.person, **data))


class InvitationView(ConditionalView, InvitationBaseView):
    """One invitation, whatever became of it."""

    def find_object(self, *, invitation_id: int, **_: Any) -> Invitation:
        return invitation_of(self.tenant, invitation_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        invitation_withdraw(invitation=self.find_object(**kwargs), actor=self.person)
        return Response(status=status.HTTP_204_NO_CONTENT)


class InvitationResendView(InvitationBaseView):
    """Another link in the place of the one before, sent and shown once."""

    @extend_schema(request=None, responses={201: InvitationCreatedSerializer})
    def post(self, request: Request, invitation_id: int, **_: Any) -> Response:
        invitation = invitation_of(self.tenant, invitation_id)
        return self.made(*invitation_resend(invitation=invitation, actor=self.person))
