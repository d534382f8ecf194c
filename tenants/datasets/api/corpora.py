"""API of corpora: upload, preview, list, delete. Only staff access the platform's own corpora."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import StaffView, TenantView
from tenants.accounts.models import Tenant
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import SearchQuerySerializer, UploadFormParser, validated_body, validated_query
from tenants.base.api.object_view import ObjectView
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.api.serializers import (
    CorpusFileSerializer,
    CorpusSerializer,
    CorpusUploadSerializer,
    PreviewSerializer,
)
from tenants.datasets.models import Corpus
from tenants.datasets.selectors.previews import search_by_name
from tenants.datasets.selectors.uploads import corpora_of, corpus_of, platform_corpora
from tenants.datasets.services.corpora import corpus_delete, corpus_preview, corpus_upload


def _upload(request: Request, tenant: Tenant | None) -> Response:
    data = validated_body(CorpusUploadSerializer, request)
    file = data["file"]
    corpus = corpus_upload(
        tenant=tenant,
        name=data["name"],
        stream=file,
        filename=file.name,
        actor=request_actor(request),
    )
    return Response(CorpusSerializer(corpus).data, status=status.HTTP_201_CREATED)


class CorporaView(TenantView):
    """The tenant's corpora."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = CorpusSerializer
    queryset = Corpus.unscoped.none()

    @extend_schema(parameters=[SearchQuerySerializer], responses=CorpusSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's corpora."""
        query = validated_query(SearchQuerySerializer, request)
        page = self.paginate_queryset(search_by_name(corpora_of(self.tenant), words=query["words"]))
        return self.get_paginated_response(CorpusSerializer(page, many=True).data)

    @extend_schema(request=CorpusUploadSerializer, responses={201: CorpusSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Upload a corpus."""
        return _upload(request, self.tenant)


class CorpusPreviewView(TenantView):
    """Validate a corpus without storing it."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = PreviewSerializer
    takes_idempotency_key = False

    @extend_schema(request=CorpusFileSerializer, responses=PreviewSerializer)
    def post(self, request: Request, **_: Any) -> Response:
        data = validated_body(CorpusFileSerializer, request)
        file = data["file"]
        return Response(corpus_preview(stream=file, filename=file.name))


class CorpusView(ObjectView, TenantView):
    """Get a corpus."""

    serializer_class = CorpusSerializer
    queryset = Corpus.unscoped.none()

    def find_object(self, *, corpus_id: int, **_: Any) -> Corpus:
        return corpus_of(self.tenant, corpus_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete a corpus that nothing uses."""
        corpus_delete(corpus=self.find_object(**kwargs), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class PlatformCorporaView(StaffView):
    """The platform's corpora, which roots and platform domains are trained on."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    permissions = {"GET": ("datasets.view_corpus",), "POST": ("datasets.add_corpus",)}
    parser_classes = [UploadFormParser]
    serializer_class = CorpusSerializer
    queryset = Corpus.unscoped.none()

    @extend_schema(responses=CorpusSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the platform's corpora."""
        page = self.paginate_queryset(platform_corpora())
        return self.get_paginated_response(CorpusSerializer(page, many=True).data)

    @extend_schema(request=CorpusUploadSerializer, responses={201: CorpusSerializer})
    def post(self, request: Request) -> Response:
        """Upload a corpus of the platform."""
        return _upload(request, None)
