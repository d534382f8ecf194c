"""API of webhook endpoints and their deliveries."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from tenants.accounts.api.access import TenantView
from tenants.accounts.models import Role
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_body
from tenants.base.api.object_view import ObjectView
from tenants.webhooks.api.serializers import (
    DeliverySerializer,
    WebhookChangeSerializer,
    WebhookCreateSerializer,
    WebhookRotateSerializer,
    WebhookSerializer,
    WebhookWithSecretSerializer,
)
from tenants.webhooks.models import WebhookDelivery, WebhookEndpoint
from tenants.webhooks.selectors import deliveries_of, delivery_of, webhook_of, webhooks_of
from tenants.webhooks.services.endpoints import webhook_create, webhook_delete, webhook_rotate, webhook_update
from tenants.webhooks.services.events import delivery_replay, webhook_test


class WebhookBaseView(TenantView):
    """The base of the webhook views: developers, and keys with the scope ``manage``, read and write."""

    serializer_class: type[BaseSerializer[Any]] = WebhookSerializer
    queryset = WebhookEndpoint.unscoped.none()
    read_role = Role.DEVELOPER


class WebhooksView(WebhookBaseView):
    """The tenant's webhooks."""

    ordering = ("created_at", "pk")

    @extend_schema(responses=WebhookSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's webhooks, oldest first."""
        page = self.paginate_queryset(webhooks_of(self.tenant))
        return self.get_paginated_response(WebhookSerializer(page, many=True).data)

    @extend_schema(request=WebhookCreateSerializer, responses={201: WebhookWithSecretSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Create a webhook. Its secret is in this response only."""
        data = validated_body(WebhookCreateSerializer, request)
        endpoint, secret = webhook_create(tenant=self.tenant, actor=request_actor(request), **data)
        return _with_secret(endpoint, secret, status.HTTP_201_CREATED)


class WebhookView(ObjectView, WebhookBaseView):
    """Get a webhook."""

    def find_object(self, *, endpoint_id: UUID, **_: Any) -> WebhookEndpoint:
        return webhook_of(self.tenant, endpoint_id)

    @extend_schema(request=WebhookChangeSerializer, responses=WebhookSerializer)
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Change a webhook."""
        endpoint = self.find_object(**kwargs)
        data = validated_body(WebhookChangeSerializer, request)
        changed = webhook_update(endpoint=endpoint, actor=request_actor(request), **data)
        return Response(WebhookSerializer(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete a webhook."""
        webhook_delete(endpoint=self.find_object(**kwargs), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class WebhookRotateView(WebhookBaseView):
    """Replace the secret of a webhook. The new one is in this response only."""

    @extend_schema(request=WebhookRotateSerializer, responses=WebhookWithSecretSerializer)
    def post(self, request: Request, endpoint_id: UUID, **_: Any) -> Response:
        endpoint = webhook_of(self.tenant, endpoint_id)
        data = validated_body(WebhookRotateSerializer, request)
        overlap = timedelta(seconds=data["overlap_s"])
        return _with_secret(*webhook_rotate(endpoint=endpoint, overlap=overlap, actor=request_actor(request)))


class WebhookTestView(WebhookBaseView):
    """Send a test event to a webhook, and return its delivery."""

    @extend_schema(request=None, responses={201: DeliverySerializer})
    def post(self, request: Request, endpoint_id: UUID, **_: Any) -> Response:
        endpoint = webhook_of(self.tenant, endpoint_id)
        delivery = webhook_test(endpoint=endpoint, actor=request_actor(request))
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_201_CREATED)


class DeliveriesView(WebhookBaseView):
    """List the deliveries to a webhook, newest first. They are kept for 30 days."""

    serializer_class = DeliverySerializer
    ordering = ("-created_at", "-pk")

    @extend_schema(responses=DeliverySerializer(many=True))
    def get(self, request: Request, endpoint_id: UUID, **_: Any) -> Response:
        page = self.paginate_queryset(deliveries_of(webhook_of(self.tenant, endpoint_id)))
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)


class DeliveryView(ObjectView, WebhookBaseView):
    """Get a delivery."""

    serializer_class = DeliverySerializer

    def find_object(self, *, endpoint_id: UUID, delivery_id: UUID, **_: Any) -> WebhookDelivery:
        return delivery_of(webhook_of(self.tenant, endpoint_id), delivery_id)


class DeliveryReplayView(WebhookBaseView):
    """Send an event again with the same id."""

    @extend_schema(request=None, responses={201: DeliverySerializer})
    def post(self, request: Request, endpoint_id: UUID, delivery_id: UUID, **_: Any) -> Response:
        delivery = delivery_of(webhook_of(self.tenant, endpoint_id), delivery_id)
        replay = delivery_replay(delivery=delivery, actor=request_actor(request))
        return Response(DeliverySerializer(replay).data, status=status.HTTP_201_CREATED)


def _with_secret(endpoint: WebhookEndpoint, secret: str, code: int = status.HTTP_200_OK) -> Response:
    return Response(dict(WebhookSerializer(endpoint).data) | {"secret": secret}, status=code)
