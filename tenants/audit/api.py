"""Who did what: for the owners of a tenant."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.models import Role
from tenants.audit.models import AuditEvent
from tenants.audit.selectors import AuditFilter, audit_events_of


class AuditQuerySerializer(serializers.Serializer[Any]):
    """Which events."""

    actor = serializers.CharField(
        required=False, help_text="A user name, the prefix of a key, or `system` for what happened by itself."
    )
    kind = serializers.CharField(required=False, help_text="Such as `dataset`, or just `dataset.upload`.")
    words = serializers.CharField(required=False, help_text="Letters of what it was done to.")
    since = serializers.DateField(required=False)
    until = serializers.DateField(required=False)


class AuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    """One thing that was done. Neither an actor nor a key: by the system itself."""

    actor = serializers.CharField(source="actor.username", default=None, read_only=True, allow_null=True)
    key = serializers.CharField(source="api_key_id", read_only=True, allow_null=True)

    class Meta:
        model = AuditEvent
        fields = ("id", "at", "verb", "subject", "actor", "key", "address", "request_id", "detail")
        read_only_fields = fields


class AuditView(TenantView):
    """The tenant's audit events, the newest first."""

    serializer_class = AuditEventSerializer
    queryset = AuditEvent.unscoped.none()
    read_role = Role.OWNER
    keys_allowed = False

    @extend_schema(parameters=[AuditQuerySerializer], responses=AuditEventSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        query = AuditQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        page = self.paginate_queryset(audit_events_of(self.tenant, AuditFilter(**query.validated_data)))
        return self.get_paginated_response(AuditEventSerializer(page, many=True).data)
