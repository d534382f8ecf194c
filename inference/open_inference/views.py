"""Views of the Open Inference Protocol: server and model metadata, readiness, inference."""

from functools import partial
from typing import Any, Final

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference.api.admission import gateway, reaching_the_queue, serving_root
from inference.api.rates.limits import MANAGE
from inference.api.rates.throttles import count_member_request
from inference.api.schema import HEADER_PARAMETERS
from inference.api.validation import parse_call, tenant_in
from inference.api.views import InferAPIView, IsIdentified, enter_asked_tenant
from inference.open_inference.parsers import JSON_LENGTH, Body, OipBodyParser
from inference.open_inference.requests import parse_request
from inference.open_inference.responses import BINARY_TYPE, JSON_TYPE, oip_response
from inference.open_inference.serializers import (
    OipErrorSerializer,
    OipInferRequestSerializer,
    OipInferResponseSerializer,
    OipModelSerializer,
    OipReadySerializer,
    OipServerSerializer,
)
from inference.open_inference.signatures import signature_of
from tenants.accounts.authentication import CachedApiKeyAuthentication
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import RequestApi
from versiontree.tree.models.version import VersionState
from versiontree.tree.resolution import require_encoder, resolve_model_cached
from versiontree.tree.selectors.versions import hplm_of, versions_of

EXTENSIONS: Final = ["binary_tensor_data"]
SERVER: Final = "hmi"
NOT_READY_CODES: Final = {ErrorCode.MODEL_NOT_READY, ErrorCode.WORKER_UNAVAILABLE}
SERVER_ERRORS: Final = (400, 406, 500)
MODEL_ERRORS: Final = (*SERVER_ERRORS, 401, 403, 404, 409, 429, 503)
INFER_ERRORS: Final = (*MODEL_ERRORS, 408, 413, 415, 504)


def _errors(*statuses: int) -> dict[int, Any]:
    return dict.fromkeys(sorted(statuses), OipErrorSerializer)


class OipView(APIView):
    """Base of the read-only views."""

    authentication_classes = (CachedApiKeyAuthentication, SessionAuthentication)
    permission_classes: Any = (IsIdentified,)


class ServerView(OipView):
    """`GET /v2`."""

    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="oip_server",
        responses={200: OipServerSerializer, **_errors(*SERVER_ERRORS)},
        auth=[],
    )
    def get(self, request: Request) -> Response:
        """Get the server metadata."""
        return Response(
            {"name": SERVER, "version": settings.SPECTACULAR_SETTINGS["VERSION"], "extensions": EXTENSIONS}
        )


class ModelView(OipView):
    """`GET /v2/models/<model>`."""

    @extend_schema(operation_id="oip_model", responses={200: OipModelSerializer, **_errors(*MODEL_ERRORS)})
    def get(self, request: Request, model: str, version: int | None = None) -> Response:
        """Get the model metadata: its ready versions and its tensors."""
        reference = _reference(model, version)
        tenant = enter_asked_tenant(request, tenant_in(reference))
        count_member_request(request, tenant, MANAGE)
        found = require_encoder(resolve_model_cached(tenant, reference))
        versions = versions_of(hplm_of(tenant, found.model_name)).filter(state=VersionState.READY)
        numbers = [str(number) for number in versions.order_by("number").values_list("number", flat=True)]
        metadata = {
            "name": f"{found.tenant_slug}/{found.model_name}",
            "versions": numbers if version is None else [str(version)],
            "platform": f"{SERVER}_{found.task}",
        }
        return Response({**metadata, **signature_of(found.task, pairs=found.pairs).to_json()})


class ModelReadyView(OipView):
    """`GET /v2/models/<model>/ready`."""

    @extend_schema(
        operation_id="oip_model_ready",
        responses={
            200: OipReadySerializer,
            **_errors(*MODEL_ERRORS),
            503: OipReadySerializer,
        },
    )
    def get(self, request: Request, model: str, version: int | None = None) -> Response:
        """Check whether a model is ready. 503 if its version is not ready, or no worker serves its root."""
        reference = _reference(model, version)
        tenant = enter_asked_tenant(request, tenant_in(reference))
        count_member_request(request, tenant, MANAGE)
        try:
            found = resolve_model_cached(tenant, reference)
            with reaching_the_queue():
                ready = bool(serving_root(found.root_digest, gateway().state.workers))
        except HmiError as error:
            if error.code not in NOT_READY_CODES:
                raise
            ready = False
        return Response({"name": model, "ready": ready}, status=200 if ready else 503)


class ModelInferView(InferAPIView):
    """`POST /v2/models/<model>/infer`."""

    api = RequestApi.OIP
    parser_classes = (OipBodyParser,)

    @extend_schema(
        operation_id="oip_infer",
        request={JSON_TYPE: OipInferRequestSerializer, BINARY_TYPE: OpenApiTypes.BINARY},
        responses={
            (200, JSON_TYPE): OipInferResponseSerializer,
            (200, BINARY_TYPE): OpenApiTypes.BINARY,
            **_errors(*INFER_ERRORS),
        },
        parameters=[
            OpenApiParameter(
                JSON_LENGTH,
                OpenApiTypes.INT,
                OpenApiParameter.HEADER,
                description="Number of JSON bytes at the start of the body. Binary tensors follow.",
            ),
            *HEADER_PARAMETERS,
        ],
        examples=[
            OpenApiExample(
                "One text",
                {
                    "inputs": [
                        {"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["It will not start"]}
                    ]
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, model: str, version: int | None = None) -> HttpResponseBase:
        """Run inference on a model."""
        reference = _reference(model, version)
        tenant = self.enter_tenant_of(request, reference)
        data: object = request.data
        body = data if isinstance(data, Body) else Body({}, memoryview(b""))
        found = require_encoder(resolve_model_cached(tenant, reference))
        signature = signature_of(found.task, pairs=found.pairs)
        names = (model, found.model_name, f"{found.tenant_slug}/{found.model_name}")
        parsed = parse_request(body, signature, models=names, versions=("", str(found.version_number)))
        call = parse_call(
            {
                "model": reference,
                "inputs": parsed.inputs,
                "timeout_s": parsed.timeout_s,
                "quality": parsed.quality,
                "target": parsed.target,
            }
        )
        submit = partial(self.submit, request, call, tenant=tenant)
        return self.answer_later(submit, partial(oip_response, request=parsed, signature=signature))


@extend_schema_view(get=extend_schema(operation_id="oip_version"))
class VersionView(ModelView):
    """`GET /v2/models/<model>/versions/<n>`."""


@extend_schema_view(get=extend_schema(operation_id="oip_version_ready"))
class VersionReadyView(ModelReadyView):
    """`GET /v2/models/<model>/versions/<n>/ready`."""


@extend_schema_view(post=extend_schema(operation_id="oip_version_infer"))
class VersionInferView(ModelInferView):
    """`POST /v2/models/<model>/versions/<n>/infer`."""


def _reference(model: str, number: int | None) -> str:
    return model if number is None else f"{model}:{number}"
