"""API of API keys. Keys cannot manage keys, so that a stolen key cannot create others."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.api.serializers import (
    ApiKeyCreatedSerializer,
    ApiKeyCreateSerializer,
    ApiKeyRotateSerializer,
    ApiKeySerializer,
)
from tenants.accounts.models import ApiKey, Role
from tenants.accounts.permissions import request_actor
from tenants.accounts.selectors import api_key_of, api_keys_of
from tenants.accounts.services.api_keys import api_key_create, api_key_revoke, api_key_rotate
from tenants.audit.services import person
from tenants.base.api.inputs import validated_body
from tenants.base.api.object_view import ObjectView


class ApiKeyBaseView(TenantView):
    """The base of the key views. Developers list keys; owners create and revoke them."""

    serializer_class = ApiKeySerializer
    queryset = ApiKey.unscoped.none()
    read_role = Role.DEVELOPER
    write_role = Role.OWNER
    keys_allowed = False


class ApiKeysView(ApiKeyBaseView):
    """The tenant's API keys."""

    ordering = ("-created", "-pk")

    @extend_schema(responses=ApiKeySerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's API keys, newest first."""
        page = self.paginate_queryset(api_keys_of(self.tenant))
        return self.get_paginated_response(ApiKeySerializer(page, many=True).data)

    @extend_schema(request=ApiKeyCreateSerializer, responses={201: ApiKeyCreatedSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Create an API key. The plaintext is in this response only."""
        data = validated_body(ApiKeyCreateSerializer, request)
        created_by = person(request_actor(request))
        return _with_plaintext(*api_key_create(tenant=self.tenant, created_by=created_by, **data))


class ApiKeyView(ObjectView, ApiKeyBaseView):
    """Get an API key by its prefix."""

    def find_object(self, *, prefix: str, **_: Any) -> ApiKey:
        return api_key_of(self.tenant, prefix)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Revoke an API key."""
        api_key_revoke(api_key=self.find_object(**kwargs), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ApiKeyRotateView(ApiKeyBaseView):
    """Rotate an API key. The plaintext of its successor is in this response only."""

    @extend_schema(request=ApiKeyRotateSerializer, responses={201: ApiKeyCreatedSerializer})
    def post(self, request: Request, prefix: str, **_: Any) -> Response:
        key = api_key_of(self.tenant, prefix)
        data = validated_body(ApiKeyRotateSerializer, request)
        overlap = timedelta(seconds=data["overlap_s"])
        actor = person(request_actor(request))
        return _with_plaintext(*api_key_rotate(api_key=key, overlap=overlap, actor=actor))


def _with_plaintext(key: ApiKey, plaintext: str) -> Response:
    return Response({**ApiKeySerializer(key).data, "key": plaintext}, status=status.HTTP_201_CREATED)
