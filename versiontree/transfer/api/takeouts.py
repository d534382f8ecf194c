"""Takeouts: request, show and download exports of all data of a tenant. For signed-in owners."""

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
from tenants.base.api.downloads import OCTET_STREAM, DownloadView, download_type
from tenants.base.api.inputs import ChoiceField
from tenants.base.api.object_view import ObjectView
from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.archive.sources import ZIP_TYPE
from versiontree.transfer.models import Takeout, TakeoutState
from versiontree.transfer.selectors import takeout_of, takeout_ready, takeouts_of
from versiontree.transfer.services.takeouts import takeout_path, takeout_record_download, takeout_request


class TakeoutSerializer(serializers.ModelSerializer[Takeout]):
    """A takeout. ``progress`` is the written share, 0 to 1."""

    created_by = serializers.CharField(source="created_by.username", default=None, read_only=True)
    state = ChoiceField(source="takeout_state", choices=TakeoutState.choices, read_only=True)
    progress = serializers.FloatField(read_only=True)
    size_bytes = serializers.IntegerField(read_only=True)
    expires_at = serializers.DateTimeField(read_only=True, allow_null=True)

    class Meta:
        model = Takeout
        fields = (
            "id",
            "state",
            "progress",
            "size_bytes",
            "error_message",
            "created_by",
            "created_at",
            "finished_at",
            "expires_at",
        )
        read_only_fields = fields


class _TakeoutBaseView(TenantView):
    """Base of the views, for signed-in owners."""

    serializer_class = TakeoutSerializer
    queryset = Takeout.unscoped.none()
    read_role = Role.OWNER
    write_role = Role.OWNER
    keys_allowed = False
    ordering = ("-created_at", "pk")


class TakeoutsView(_TakeoutBaseView):
    """The tenant's takeouts: exports of all of its data."""

    @extend_schema(responses=TakeoutSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's takeouts, newest first."""
        page = self.paginate_queryset(takeouts_of(self.tenant))
        return self.get_paginated_response(TakeoutSerializer(page, many=True).data)

    @extend_schema(request=None, responses={201: TakeoutSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Start a takeout. A worker creates it."""
        takeout = takeout_request(tenant=self.tenant, actor=request_actor(request))
        return Response(TakeoutSerializer(takeout).data, status=status.HTTP_201_CREATED)


class TakeoutView(ObjectView, _TakeoutBaseView):
    """Get a takeout and its progress."""

    def find_object(self, *, takeout_id: UUID, **_: Any) -> Takeout:
        return takeout_of(self.tenant, takeout_id)


class TakeoutFileView(DownloadView, _TakeoutBaseView):
    """Download the zip file of a ready takeout. The audit log records it."""

    @extend_schema(responses={(200, ZIP_TYPE, OCTET_STREAM): OpenApiTypes.BINARY})
    def get(self, request: Request, takeout_id: UUID, **_: Any) -> FileResponse:
        takeout = takeout_ready(self.tenant, takeout_id)
        name = f"{self.tenant.slug}-{takeout.created_at:%Y-%m-%d}.zip"
        try:
            file = takeout_path(takeout).open("rb")
        except FileNotFoundError as error:
            raise HmiError(ErrorCode.NOT_FOUND, "This file was deleted. Request a new export.") from error
        takeout_record_download(takeout=takeout, actor=request_actor(request))
        kind = download_type(request, ZIP_TYPE)
        return FileResponse(file, as_attachment=True, filename=name, content_type=kind)
