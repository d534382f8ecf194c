"""The infer endpoint: who asks, what they ask, the answer; and how they take it back."""

from functools import partial

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference.api.callers import IsIdentified, enter_asked_tenant
from inference.api.idempotency import claim_answer
from inference.api.infer import HEADER_PARAMETERS, answer_headers, cancel
from inference.api.infer_base_view import Answer, InferAPIView
from inference.api.rates.limits import MANAGE
from inference.api.rates.throttles import count_member_request
from inference.api.schema import Error, InferAnswer
from inference.api.validation import REQUEST_ID_HEADER, InferCall, parse_call
from tenants.accounts.api import idempotency
from tenants.accounts.api.idempotency import check_key
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import RequestApi

TIMEOUT_HEADER = "X-Timeout-S"
TENANT = OpenApiParameter("tenant", description="For signed-in members, where the model names no tenant.")
ERROR_STATUSES = (401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 504)


class InferView(InferAPIView):
    """`POST /api/v1/infer`: texts and a model in, one result for each text out."""

    api = RequestApi.INFER

    @extend_schema(
        operation_id="infer",
        request={"application/json": InferCall},
        responses={200: InferAnswer, **dict.fromkeys(ERROR_STATUSES, Error)},
        parameters=[
            TENANT,
            OpenApiParameter(
                TIMEOUT_HEADER,
                OpenApiTypes.FLOAT,
                OpenApiParameter.HEADER,
                description="The same as `timeout_s`.",
            ),
            OpenApiParameter(
                REQUEST_ID_HEADER,
                location=OpenApiParameter.HEADER,
                description="A name for the request, to cancel it by: 1 to 64 letters, digits, `-` and `_`. "
                "Another is replaced; the answer's header has the name that counts.",
            ),
            OpenApiParameter(
                idempotency.HEADER,
                location=OpenApiParameter.HEADER,
                description="The same key and body again have the same answer, for ten minutes.",
            ),
            *HEADER_PARAMETERS,
        ],
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Run inference on a model."""
        key = check_key(request.headers.get(idempotency.HEADER))
        call = parse_call(request.data, timeout_header=request.headers.get(TIMEOUT_HEADER))
        tenant = self.enter_tenant_of(request, call.model)
        claim = claim_answer(tenant=tenant.slug, key=key, body=request.data, seconds=call.seconds)
        submit = partial(self.submit, request, call, tenant=tenant)
        return self.answer_later(submit, self._respond, claim=claim)

    def _respond(self, answer: Answer) -> Response:
        self.request_trace.answer = answer
        return Response(answer, headers=answer_headers(answer))


class InferCallView(APIView):
    """`DELETE /api/v1/infer/<request id>`."""

    permission_classes = (IsIdentified,)

    @extend_schema(
        operation_id="infer_cancel",
        responses={204: None, **dict.fromkeys((401, 403, 404, 503), Error)},
        parameters=[TENANT],
    )
    def delete(self, request: Request, request_id: str) -> Response:
        """Cancel a pending request. It fails with the code `cancelled`."""
        tenant = enter_asked_tenant(request, None)
        count_member_request(request, tenant, MANAGE)
        if not cancel(tenant=tenant, request_id=request_id):
            raise HmiError(ErrorCode.NOT_FOUND, "There is no pending request with this id.")
        return Response(status=204)
