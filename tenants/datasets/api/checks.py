"""Making something of uploads: checked, and stored if asked to."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.permissions import request_actor
from tenants.base.api.conditional import ConditionalView
from tenants.datasets.api.upload_serializers import CheckAskedSerializer, CheckSerializer
from tenants.datasets.models import CheckKind, UploadCheck
from tenants.datasets.selectors.uploads import check_of, upload_of
from tenants.datasets.services.checks import check_create


class ChecksView(TenantView):
    """Checks of uploads; 202 for those that a worker does."""

    serializer_class = CheckSerializer
    queryset = UploadCheck.unscoped.none()

    @extend_schema(request=CheckAskedSerializer, responses={201: CheckSerializer, 202: CheckSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        asked = CheckAskedSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given, actor = asked.validated_data, request_actor(request)
        files = {purpose: upload_of(self.tenant, actor, key) for purpose, key in given["files"].items()}
        options = {key: given[key] for key in ("task", "columns", "separator", "allow_leaks") if key in given}
        check = check_create(
            tenant=self.tenant,
            kind=given["kind"],
            files=files,
            name=given["name"],
            stores=given["stores"],
            options=options if given["kind"] == CheckKind.DATASET else {},
            actor=actor,
        )
        done = status.HTTP_202_ACCEPTED if check.is_active else status.HTTP_201_CREATED
        return Response(CheckSerializer(check).data, status=done)


class CheckView(ConditionalView, TenantView):
    """One check, with what was found."""

    serializer_class = CheckSerializer
    queryset = UploadCheck.unscoped.none()

    def found(self, *, check_id: UUID, **_: Any) -> UploadCheck:
        return check_of(self.tenant, check_id)
