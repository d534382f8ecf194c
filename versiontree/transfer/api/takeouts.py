"""All data of a tenant in one file: asked for, watched, fetched. For its owners; keys do not."""

from typing import Any
from uuid import UUID

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.models import Role
from tenants.accounts.permissions import request_actor
from tenants.base.api.conditional import ConditionalView
from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.models import Takeout
from versiontree.transfer.selectors import takeout_of, takeout_seen_by, takeouts_of
from versiontree.transfer.services.takeouts import takeout_fetch, takeout_path, takeout_request


class TakeoutSerializer(serializers.ModelSerializer[Takeout]):
    """A file with all data, or the way to it: ``share`` of it is written."""

    created_by = serializers.CharField(source="created_by.username", default=None, read_only=True)
    share = serializers.FloatField(read_only=True)
    size_bytes = serializers.IntegerField(source="written_bytes", read_only=True)

    class Meta:
        model = Takeout
        fields = (
            "id",
            "state",
            "share",
            "size_bytes",
            "error_message",
            "created_by",
            "created_at",
            "finished_at",
            "expires_at",
        )
        read_only_fields = fields


class TakingOutView(TenantView):
    """For owners, signed in."""

    serializer_class = TakeoutSerializer
    queryset = Takeout.unscoped.none()
    read_role = Role.OWNER
    write_role = Role.OWNER
    keys_allowed = False
    ordering = ("-created_at", "pk")


class TakeoutsView(TakingOutView):
    """The files with all data of the tenant, the newest first; POST has a worker make one."""

    @extend_schema(responses=TakeoutSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        page = self.paginate_queryset(takeouts_of(self.tenant))
        return self.get_paginated_response(TakeoutSerializer(page, many=True).data)

    @extend_schema(request=None, responses={201: TakeoutSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        takeout = takeout_request(tenant=self.tenant, actor=request_actor(request))
        return Response(TakeoutSerializer(takeout).data, status=status.HTTP_201_CREATED)


class TakeoutView(ConditionalView, TakingOutView):
    """One of them, and how far it is."""

    def find_object(self, *, takeout_id: UUID, **_: Any) -> Takeout:
        return takeout_seen_by(self.tenant, takeout_id)


class TakeoutFileView(TakingOutView):
    """The zip file itself, once it is ready; who fetched it is written down."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Whoever asks for application/zip gets it; errors are JSON."""
        return super().perform_content_negotiation(request, force=True)

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    def get(self, request: Request, takeout_id: UUID, **_: Any) -> FileResponse:
        takeout = takeout_of(self.tenant, takeout_id)
        name = f"{self.tenant.slug}-{takeout.created_at:%Y-%m-%d}.zip"
        try:
            file = takeout_path(takeout).open("rb")
        except FileNotFoundError as error:
            raise HmiError(ErrorCode.NOT_FOUND, "This file is gone; ask for a new one.") from error
        takeout_fetch(takeout=takeout, actor=request_actor(request))
        return FileResponse(file, as_attachment=True, filename=name, content_type="application/zip")
