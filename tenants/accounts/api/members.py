"""API of members: members list, owners change and remove, everybody may leave. Not for API keys."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.api.serializers import MemberRemoveSerializer, MemberRoleSerializer, MemberSerializer
from tenants.accounts.models import Membership, Role
from tenants.accounts.permissions import request_actor, require_role
from tenants.accounts.selectors import member_of, members_of
from tenants.accounts.services.members import member_remove, member_set_role
from tenants.base.api.inputs import validated_body, validated_query
from tenants.base.api.object_view import ObjectView


class MemberBaseView(TenantView):
    """The base of the member views. All members have access; changes require the role of an owner."""

    serializer_class = MemberSerializer
    queryset = Membership.unscoped.none()
    write_role = Role.VIEWER
    keys_allowed = False


class MembersView(MemberBaseView):
    """List the tenant's members, oldest membership first."""

    ordering = ("pk",)

    @extend_schema(responses=MemberSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        page = self.paginate_queryset(members_of(self.tenant))
        return self.get_paginated_response(MemberSerializer(page, many=True).data)


class MemberView(ObjectView, MemberBaseView):
    """Get a member by the id of the membership."""

    def find_object(self, *, member_id: int, **_: Any) -> Membership:
        return member_of(self.tenant, member_id)

    @extend_schema(request=MemberRoleSerializer, responses=MemberSerializer)
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Change a member's role."""
        require_role(request.user, self.tenant, Role.OWNER)
        data = validated_body(MemberRoleSerializer, request)
        member = self.find_object(**kwargs)
        changed = member_set_role(membership=member, actor=request_actor(request), **data)
        return Response(MemberSerializer(changed).data)

    @extend_schema(parameters=[MemberRemoveSerializer], responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Remove a member."""
        member = self.find_object(**kwargs)
        if member.user != request.user:
            require_role(request.user, self.tenant, Role.OWNER)
        query = validated_query(MemberRemoveSerializer, request)
        revoke_keys = query["revoke_keys"] and member.user != request.user
        member_remove(membership=member, actor=request_actor(request), revoke_keys=revoke_keys)
        return Response(status=status.HTTP_204_NO_CONTENT)
