"""API of the audit log, for owners of a tenant."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.models import Role
from tenants.audit.models import AuditEvent
from tenants.audit.selectors import AuditFilter, audit_events_of
from tenants.base.api.inputs import validated_query


class AuditQuerySerializer(serializers.Serializer[Any]):
    """Filters of audit events."""

    actor = serializers.CharField(required=False, help_text="A user name, the prefix of a key, or `system`.")
    kind = serializers.CharField(
        required=False, help_text="A verb such as `dataset.upload`, or its first part: `dataset`."
    )
    words = serializers.CharField(required=False, help_text="Text that occurs in the subject.")
    since = serializers.DateField(required=False)
    until = serializers.DateField(required=False)


class AuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    """An audit event. Events of the system have neither an actor nor a key."""

    actor = serializers.CharField(source="actor.username", default=None, read_only=True, allow_null=True)
    key = serializers.CharField(source="api_key_id", read_only=True, allow_null=True)

    class Meta:
        model = AuditEvent
        fields = ("id", "at", "verb", "subject", "actor", "key", "address", "request_id", "detail")
        read_only_fields = fields


class AuditView(TenantView):
    """List the tenant's audit events, newest first."""

    serializer_class = AuditEventSerializer
    queryset = AuditEvent.unscoped.none()
    read_role = Role.OWNER
    keys_allowed = False

    @extend_schema(parameters=[AuditQuerySerializer], responses=AuditEventSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        query = validated_query(AuditQuerySerializer, request)
        page = self.paginate_queryset(audit_events_of(self.tenant, AuditFilter(**query)))
        return self.get_paginated_response(AuditEventSerializer(page, many=True).data)
