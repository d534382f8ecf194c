"""The infer endpoint: who asks, what they ask, the answer."""

import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference.api.infer import infer
from inference.api.parsers import InferBodyParser
from inference.api.serializers import InferAnswerSerializer, InferErrorSerializer, InferRequestSerializer
from inference.api.validation import parse_call, tenant_in
from tenants.errors import ErrorCode, HmiError
from tenants.models import ApiKey, Scope
from tenants.permissions import request_tenant, require_staff

REQUEST_ID_HEADER = "X-Request-Id"
TIMEOUT_HEADER = "X-Timeout-S"
ERROR_STATUSES = (401, 403, 404, 409, 413, 422, 429, 500, 503, 504)


class IsIdentified(BasePermission):
    """A key or a signed-in user; what they may do depends on the tenant, which the body names."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ApiKey) or bool(request.user.is_authenticated)


class InferView(APIView):
    """`POST /api/v1/infer`: texts and a model in, one result for each text out."""

    parser_classes = (InferBodyParser,)
    permission_classes = (IsIdentified,)
    request_id: str

    @extend_schema(
        operation_id="infer",
        request={"application/json": InferRequestSerializer},
        responses={200: InferAnswerSerializer, **dict.fromkeys(ERROR_STATUSES, InferErrorSerializer)},
        parameters=[
            OpenApiParameter("tenant", description="For signed-in members, where the model names no tenant."),
            OpenApiParameter(
                TIMEOUT_HEADER,
                OpenApiTypes.FLOAT,
                OpenApiParameter.HEADER,
                description="The same as `timeout_s`.",
            ),
        ],
    )
    def post(self, request: Request) -> Response:
        """Ask an hPLM."""
        call = parse_call(request.data, timeout_header=request.headers.get(TIMEOUT_HEADER))
        is_key = isinstance(request.auth, ApiKey)
        if call.miss_policy is not None:
            _require_staff(request)
        # A key's tenant is known; that the model is another's is for the look-up to refuse.
        named = None if is_key else tenant_in(call.model) or request.query_params.get("tenant")
        tenant = request_tenant(request, named, Scope.INFER)
        answer = infer(
            tenant=tenant,
            reference=call.model,
            inputs=call.inputs,
            timeout_s=call.timeout_s,
            request_id=self.request_id,
            miss_policy=call.miss_policy,
        )
        return Response(answer)

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Every call has an id, those that are refused too."""
        self.request_id = uuid.uuid4().hex
        return super().initialize_request(request, *args, **kwargs)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Name the id in a header, whatever the body is."""
        response[REQUEST_ID_HEADER] = self.request_id
        return super().finalize_response(request, response, *args, **kwargs)


def _require_staff(request: Request) -> None:
    """Only the platform's staff choose what a request may cost; a key is its tenant's."""
    if isinstance(request.auth, ApiKey):
        message = "Only the platform's staff may choose the miss policy."
        raise HmiError(ErrorCode.FORBIDDEN, message, param="miss_policy")
    require_staff(request.user)
