"""Webhooks: where events are sent, and the log of what was."""

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
from tenants.base.api.conditional import ConditionalView
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


class WebhookBase(TenantView):
    """Those who work in the tenant see and change its webhooks; so do keys that manage."""

    serializer_class: type[BaseSerializer[Any]] = WebhookSerializer
    queryset = WebhookEndpoint.unscoped.none()
    read_role = Role.DEVELOPER


class WebhooksView(WebhookBase):
    """The tenant's webhooks, the oldest first."""

    ordering = ("created_at", "pk")

    @extend_schema(responses=WebhookSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        page = self.paginate_queryset(webhooks_of(self.tenant))
        return self.get_paginated_response(WebhookSerializer(page, many=True).data)

    @extend_schema(request=WebhookCreateSerializer, responses={201: WebhookWithSecretSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        asked = WebhookCreateSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        endpoint, secret = webhook_create(
            tenant=self.tenant, actor=request_actor(request), **asked.validated_data
        )
        return made(endpoint, secret, status.HTTP_201_CREATED)


class WebhookView(ConditionalView, WebhookBase):
    """One webhook."""

    volatile_fields = ("failing_since",)

    def find_object(self, *, endpoint_id: UUID, **_: Any) -> WebhookEndpoint:
        return webhook_of(self.tenant, endpoint_id)

    @extend_schema(request=WebhookChangeSerializer, responses=WebhookSerializer)
    def patch(self, request: Request, **place: Any) -> Response:
        endpoint = self.find_object(**place)
        asked = WebhookChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        changed = webhook_update(endpoint=endpoint, actor=request_actor(request), **asked.validated_data)
        return Response(WebhookSerializer(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **place: Any) -> Response:
        webhook_delete(endpoint=self.find_object(**place), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class WebhookRotateView(WebhookBase):
    """Another secret for a webhook, shown this once."""

    @extend_schema(request=WebhookRotateSerializer, responses=WebhookWithSecretSerializer)
    def post(self, request: Request, endpoint_id: UUID, **_: Any) -> Response:
        endpoint = webhook_of(self.tenant, endpoint_id)
        asked = WebhookRotateSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        overlap = timedelta(seconds=asked.validated_data["overlap_s"])
        return made(*webhook_rotate(endpoint=endpoint, overlap=overlap, actor=request_actor(request)))


class WebhookTestView(WebhookBase):
    """A test event for a webhook; its delivery tells what came of it."""

    @extend_schema(request=None, responses={201: DeliverySerializer})
    def post(self, request: Request, endpoint_id: UUID, **_: Any) -> Response:
        endpoint = webhook_of(self.tenant, endpoint_id)
        delivery = webhook_test(endpoint=endpoint, actor=request_actor(request))
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_201_CREATED)


class DeliveriesView(WebhookBase):
    """What was sent to a webhook or waits for it, the newest first; kept for 30 days."""

    serializer_class = DeliverySerializer
    ordering = ("-created_at", "-pk")

    @extend_schema(responses=DeliverySerializer(many=True))
    def get(self, request: Request, endpoint_id: UUID, **_: Any) -> Response:
        page = self.paginate_queryset(deliveries_of(webhook_of(self.tenant, endpoint_id)))
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)


class DeliveryView(ConditionalView, WebhookBase):
    """One delivery."""

    serializer_class = DeliverySerializer

    def find_object(self, *, endpoint_id: UUID, delivery_id: UUID, **_: Any) -> WebhookDelivery:
        return delivery_of(webhook_of(self.tenant, endpoint_id), delivery_id)


class ReplayView(WebhookBase):
    """Send an event once more, with the same id."""

    @extend_schema(request=None, responses={201: DeliverySerializer})
    def post(self, request: Request, endpoint_id: UUID, delivery_id: UUID, **_: Any) -> Response:
        delivery = delivery_of(webhook_of(self.tenant, endpoint_id), delivery_id)
        again = delivery_replay(delivery=delivery, actor=request_actor(request))
        return Response(DeliverySerializer(again).data, status=status.HTTP_201_CREATED)


def made(endpoint: WebhookEndpoint, secret: str, code: int = status.HTTP_200_OK) -> Response:
    """The endpoint with a secret that is shown this once."""
    return Response(dict(WebhookSerializer(endpoint).data) | {"secret": secret}, status=code)
