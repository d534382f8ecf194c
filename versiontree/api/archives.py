"""Exporting versions as zip files, and importing them."""

from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.models import Role, Tenant
from tenants.permissions import request_actor
from versiontree.api.access import OwnerView, PlatformView, asked, queried
from versiontree.api.serializers import ExportQuerySerializer, ImportSerializer, VersionSerializer
from versiontree.models import Version
from versiontree.selectors import version_visible_to
from versiontree.services.export import Download, version_download
from versiontree.services.import_ import version_import

_ZIP = extend_schema(
    parameters=[OpenApiParameter("branch", OpenApiTypes.BOOL, description="With all it stands on.")],
    responses={(200, "application/zip"): OpenApiTypes.BINARY},
)
_IMPORT = extend_schema(request=ImportSerializer, responses={201: VersionSerializer})


class VersionExportView(OwnerView):
    """A ready version as a zip file."""

    read_role = Role.DEVELOPER
    serializer_class = VersionSerializer
    queryset = Version.unscoped.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Whoever asks for application/zip gets it; errors are JSON."""
        return super().perform_content_negotiation(request, force=True)

    @_ZIP
    def get(self, request: Request, version_id: int, **_: Any) -> StreamingHttpResponse:
        return _export(self.owner, request, version_id)


class PlatformVersionExportView(PlatformView):
    """A ready version of the platform's as a zip file."""

    serializer_class = VersionSerializer
    queryset = Version.unscoped.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Whoever asks for application/zip gets it; errors are JSON."""
        return super().perform_content_negotiation(request, force=True)

    @_ZIP
    def get(self, request: Request, version_id: int) -> StreamingHttpResponse:
        return _export(self.owner, request, version_id)


class ImportView(OwnerView):
    """An exported hPLM or domain becomes the tenant's."""

    parser_classes = [MultiPartParser]
    serializer_class = VersionSerializer

    @_IMPORT
    def post(self, request: Request, **_: Any) -> Response:
        return _import(self.owner, request)


class PlatformImportView(PlatformView):
    """An exported root or domain becomes the platform's."""

    parser_classes = [MultiPartParser]
    serializer_class = VersionSerializer

    @_IMPORT
    def post(self, request: Request) -> Response:
        return _import(self.owner, request)


def zip_response(download: Download) -> StreamingHttpResponse:
    """The answer that a browser saves as a file."""
    answer = StreamingHttpResponse(download.chunks, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="{download.name}"'
    answer["X-Accel-Buffering"] = "no"
    return answer


def _export(owner: Tenant | None, request: Request, version_id: int) -> StreamingHttpResponse:
    query = queried(ExportQuerySerializer, request)
    version = version_visible_to(owner, version_id)
    return zip_response(
        version_download(version=version, actor=request_actor(request), branch=query["branch"])
    )


def _import(owner: Tenant | None, request: Request) -> Response:
    body = asked(ImportSerializer, request)
    parent = body["parent"]
    version = version_import(
        archive=body["archive"],
        tenant=owner,
        actor=request_actor(request),
        name=body["name"] or None,
        parent=None if parent is None else version_visible_to(owner, parent, param="parent"),
    )
    return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)
