"""Export versions and adapters as zip files, and import them."""

from typing import Any, Final

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.models import Role, Tenant
from tenants.accounts.permissions import request_actor
from tenants.base.api.downloads import OCTET_STREAM, DownloadView, download_type
from tenants.base.api.inputs import UploadFormParser, validated_body, validated_query
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from versiontree.jobs.api.jobs import OwnerView, PlatformView
from versiontree.transfer.api.serializers import (
    ExportQuerySerializer,
    ImportAdapterSerializer,
    ImportSerializer,
)
from versiontree.transfer.archive.sandboxed_check import FORMATS
from versiontree.transfer.archive.sources import ZIP_TYPE, zip_response
from versiontree.transfer.services.adapter_import import adapter_import
from versiontree.transfer.services.version_export import adapter_download, version_download
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.api.serializers import VersionSerializer
from versiontree.tree.models import Version
from versiontree.tree.selectors.versions import hplm_of, version_visible_to

ARCHIVE: Final = "archive"


class _VersionExport(DownloadView):
    serializer_class = VersionSerializer
    queryset = Version.unscoped.none()
    owner: Tenant | None

    @extend_schema(
        parameters=[
            OpenApiParameter("branch", OpenApiTypes.BOOL, description="Include the domains and the root."),
            OpenApiParameter(
                "format",
                enum=["archive", *FORMATS],
                description="A model as an archive, or as an adapter that peft or adapters load.",
            ),
        ],
        responses={(200, ZIP_TYPE, OCTET_STREAM): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, version_id: int, **_: Any) -> StreamingHttpResponse:
        query, actor = validated_query(ExportQuerySerializer, request), request_actor(request)
        version = version_visible_to(self.owner, version_id)
        if (form := query["format"]) != ARCHIVE:
            download = adapter_download(version=version, form=form, actor=actor)
        else:
            download = version_download(version=version, actor=actor, branch=query["branch"])
        return zip_response(download, content_type=download_type(request, ZIP_TYPE))


class _Import(GenericAPIView[Version]):
    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = VersionSerializer
    owner: Tenant | None

    @extend_schema(request=ImportSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        body = validated_body(ImportSerializer, request)
        parent = body["parent"]
        version = version_import(
            archive=body["archive"],
            tenant=self.owner,
            actor=request_actor(request),
            name=body["name"] or None,
            parent=None if parent is None else version_visible_to(self.owner, parent, param="parent"),
        )
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class VersionExportView(_VersionExport, OwnerView):
    """Export a ready version as a zip file."""

    read_role = Role.DEVELOPER


class PlatformVersionExportView(_VersionExport, PlatformView):
    """Export a ready version of the platform as a zip file."""

    permissions = {"GET": ("tree.change_version",)}


class ImportView(_Import, OwnerView):
    """Import an exported model or domain."""


class ImportAdapterView(OwnerView):
    """Import a LoRA adapter of Hugging Face PEFT, or a bottleneck adapter of AdapterHub, as a model. It must
    have been trained on the checkpoint of a root."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = VersionSerializer

    @extend_schema(request=ImportAdapterSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        body = validated_body(ImportAdapterSerializer, request)
        is_update, name = body.pop("new_version"), body.pop("name")
        version = adapter_import(
            **{**body, "parent": version_visible_to(self.tenant, body["parent"], param="parent")},
            tenant=self.tenant,
            model=hplm_of(self.tenant, name) if is_update else name,
            actor=request_actor(request),
        )
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class PlatformImportView(_Import, PlatformView):
    """Import an exported root or domain for the platform."""

    permissions = {"POST": ("tree.add_root", "tree.add_domain")}
