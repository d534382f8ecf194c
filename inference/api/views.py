"""The views of `/api/v1/infer`, and the base class of all infer views: authentication, permissions, rate
limits, request log, and responses that wait for the workers without a thread."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import APIException
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from structlog.contextvars import get_contextvars

from inference.api.idempotency import NO_CLAIM, AnswerClaim, claim_answer
from inference.api.infer import InferRun, cancel
from inference.api.parsers import InferBodyParser
from inference.api.pending_response import Outcome, respond_later
from inference.api.prepared_request import prepare_request
from inference.api.rates.limits import MANAGE, REQUESTS
from inference.api.rates.throttles import InferRate, count_member_request, key_of
from inference.api.request_trace import RequestTrace
from inference.api.schema import HEADER_PARAMETERS, Error, InferAnswer, answer_headers
from inference.api.validation import REQUEST_ID_HEADER, InferCall, parse_call, tenant_in
from tenants.accounts.api import idempotency
from tenants.accounts.api.idempotency import check_key
from tenants.accounts.authentication import CachedApiKeyAuthentication
from tenants.accounts.models import ApiKey, Scope, Tenant
from tenants.accounts.permissions import request_tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import enter_tenant
from tenants.base.upload_concurrency import INFER_BODY_LIMIT, SMALL_BODY_BYTES
from tenants.usage.models import RequestApi

TIMEOUT_HEADER = "X-Timeout-S"
TENANT = OpenApiParameter("tenant", description="For signed-in members, where the model names no tenant.")
ERROR_STATUSES = (401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 504)
UNREADABLE: Final = (HmiError, APIException, OSError)

Answer = Mapping[str, Any]
Reply = TypeVar("Reply")


class IsIdentified(BasePermission):
    """Permits API keys and signed-in users. Roles are checked once the tenant is known."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ApiKey) or bool(request.user.is_authenticated)


def enter_asked_tenant(request: Request, named: str | None) -> Tenant:
    """Enter the scope of the request's tenant, and return the tenant: the key's, else the one that is named.
    The look-up refuses models of other tenants. `count_member_request` is the next step."""
    is_key = isinstance(request.auth, ApiKey)
    tenant = request_tenant(
        request, None if is_key else named or request.query_params.get("tenant"), Scope.INFER
    )
    enter_tenant(tenant)
    return tenant


@dataclass(frozen=True, slots=True)
class SubmittedCall(Generic[Reply]):
    """A call that workers compute. ``wait`` is for an event loop, ``conclude`` makes the answer from its
    outcome in a thread, ``cancel`` may be called by any thread."""

    wait: Callable[[], Coroutine[Any, Any, Reply]]
    conclude: Callable[[Outcome[Reply]], Answer]
    cancel: Callable[[], object]


class InferAPIView(APIView):
    """``request_id`` is the name that the log has, too, and by which the request can be cancelled.
    ``request_trace`` collects what the tenant's request log says of it."""

    body_limit_setting = INFER_BODY_LIMIT
    authentication_classes = (CachedApiKeyAuthentication, SessionAuthentication)
    parser_classes: Any = (InferBodyParser,)
    permission_classes = (IsIdentified,)
    throttle_classes = (InferRate,)
    api: ClassVar[RequestApi]
    request_id: str
    request_trace: RequestTrace

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Every call has an id, those that are refused too."""
        self.request_id = get_contextvars().get("request_id", "")  # none while the schema is made
        self.request_trace = RequestTrace(self.api, self.request_id)
        return super().initialize_request(request, *args, **kwargs)

    def perform_authentication(self, request: Request) -> None:
        """Note the tenant of the key, so that requests that are refused later are logged too."""
        super().perform_authentication(request)
        self.request_trace.set_key(key_of(request))
        self.request_trace.reference = self.kwargs.get("model", "")

    def handle_exception(self, exc: Exception) -> Response:
        """Log a request that ends in an unexpected error."""
        try:
            return super().handle_exception(exc)
        except Exception:
            self._record(self.request, 500, str(ErrorCode.INTERNAL))
            raise

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Log the request, unless its answer is only about to be streamed."""
        response = super().finalize_response(request, response, *args, **kwargs)
        if not self.request_trace.deferred:
            failed = response.status_code >= 400
            code = get_contextvars().get("code", str(ErrorCode.INTERNAL)) if failed else ""
            self._record(request, response.status_code, code)
        return response

    def enter_tenant_of(self, request: Request, reference: str) -> Tenant:
        """Enter the scope of the model's tenant for the rest of the request, and return the tenant."""
        self.request_trace.reference = reference
        self.request_trace.tenant = tenant = enter_asked_tenant(request, tenant_in(reference))
        count_member_request(request, tenant, REQUESTS)
        return tenant

    def submit(
        self,
        request: Request,
        call: InferCall,
        *,
        tenant: Tenant,
        embed: bool = False,
        prompt_name: str | None = None,
    ) -> SubmittedCall[Any]:
        """Prepare and submit the call. ``embed``, ``prompt_name``: as `prepare_request` has them."""
        key, name = key_of(request), self.request_id
        prepared = prepare_request(
            call, tenant=tenant, key=key, request_id=name, embed=embed, prompt_name=prompt_name
        )
        self.request_trace.set_prepared(prepared)
        run = InferRun(prepared, self.request_trace)
        run.submit()
        return SubmittedCall(run.wait, run.conclude, run.cancel)

    def answer_later(
        self,
        submit: Callable[[], SubmittedCall[Any]],
        respond: Callable[[Answer], HttpResponse],
        *,
        claim: AnswerClaim = NO_CLAIM,
    ) -> HttpResponseBase:
        """The response to the answer of the call that ``submit`` submits, or to the earlier answer of the
        claim. No thread waits for it. Raises HmiError if the call cannot be submitted."""
        if claim.earlier is not None:
            return respond(claim.earlier)
        with claim.released_on_error():
            call = submit()

        def conclude(outcome: Outcome[Any]) -> HttpResponse:
            with claim.released_on_error():
                answer = call.conclude(outcome)
            claim.keep(answer)
            return respond(answer)

        self.request_trace.deferred = True
        return respond_later(
            self.request._request, call.wait, partial(self._finish, conclude), cancel=call.cancel
        )

    def _finish(
        self, conclude: Callable[[Outcome[Any]], HttpResponse], outcome: Outcome[Any]
    ) -> HttpResponse:
        """The rendered response, with errors as Django REST framework reports those of a view."""
        self.request_trace.deferred = False
        response: HttpResponse
        try:
            response = conclude(outcome)
        except Exception as error:  # noqa: BLE001 - it raises what it does not know
            response = self.handle_exception(error)
        response = self.finalize_response(self.request, response, *self.args, **self.kwargs)
        return response.render() if isinstance(response, Response) else response

    def _record(self, request: Request, status: int, code: str) -> None:
        if request.method != "POST":
            return
        if code and not self.request_trace.reference and self.request_trace.tenant is not None:
            self.request_trace.reference = _named_model(request)
        self.request_trace.record(status, code)


def json_response(value: Answer, headers: Mapping[str, str]) -> HttpResponse:
    """A response with a JSON body, encoded by msgspec: Django REST framework's renderer takes longer."""
    return HttpResponse(msgspec.json.encode(value), content_type="application/json", headers=headers)


def _named_model(request: Request) -> str:
    """The model that the body of a refused request names; empty if the body is large or cannot be read."""
    size = str(request.META.get("CONTENT_LENGTH", ""))
    if not size.isdecimal() or int(size) > SMALL_BODY_BYTES:
        return ""
    try:
        body: object = request.data
    except UNREADABLE:
        return ""
    name = body.get("model") if isinstance(body, Mapping) else None
    return name if isinstance(name, str) else ""


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

    def _respond(self, answer: Answer) -> HttpResponse:
        self.request_trace.answer = answer
        return json_response(answer, answer_headers(answer))


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
