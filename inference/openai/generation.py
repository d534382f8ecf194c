"""`/v1/chat/completions` and `/v1/completions`: text that models write, whole or as it is written."""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request

from inference.api.idempotency import claim_answer
from inference.api.pending_response import Outcome
from inference.api.prepared_request import answered_name
from inference.api.rates.throttles import key_of
from inference.api.schema import DIGEST, HEADER_DESCRIPTIONS, MODEL, NUMBER_FORMAT
from inference.api.views import InferAPIView, SubmittedCall, json_response
from inference.openai.completion_run import CompletedChoices, CompletionRun
from inference.openai.completion_stream import stream_response
from inference.openai.completions import CHAT, TEXT, ChoiceFormat, Heading, response_json
from inference.openai.errors import PermissiveNegotiation, error_responses
from inference.openai.generation_requests import ChatCall, CompletionCall, GenerationCall
from inference.openai.generation_serializers import (
    ChatCompletionRequestSerializer,
    ChatCompletionSerializer,
    CompletionRequestSerializer,
    CompletionSerializer,
)
from inference.openai.prepared_completion import PreparedCompletion, prepare_completion, texts_of
from inference.openai.request_fields import unsupported
from tenants.accounts.api import idempotency
from tenants.accounts.api.idempotency import check_key
from tenants.accounts.authentication import api_key_still_usable
from tenants.accounts.models import ApiKey, Scope, Tenant
from tenants.accounts.permissions import ROLE_OF_SCOPE, require_scope, tenant_for
from tenants.usage.models import RequestApi

EVENTS: Final = "text/event-stream"
ERRORS: Final = error_responses(400, 408, 409, 413, 504)
PARAMETERS: Final = [
    OpenApiParameter(
        idempotency.HEADER,
        location=OpenApiParameter.HEADER,
        description="The same key and body again have the same answer, for ten minutes. Not for streams.",
    ),
    *(
        OpenApiParameter(
            name, location=OpenApiParameter.HEADER, description=HEADER_DESCRIPTIONS[name], response=[200]
        )
        for name in (MODEL, DIGEST, NUMBER_FORMAT)
    ),
]
QUESTION: Final = {
    "model": "acme/writer",
    "messages": [{"role": "user", "content": "Describe the function."}],
    "max_tokens": 64,
}
PROMPT: Final = {"model": "acme/writer", "prompt": "Once upon a time", "max_tokens": 64, "stream": True}


class GenerationView(InferAPIView):
    """Base of the views that generate text."""

    content_negotiation_class: Any = PermissiveNegotiation
    style: ClassVar[ChoiceFormat]

    def answer(self, request: Request, call: GenerationCall) -> HttpResponseBase:
        """The completions of the call, or a stream of them. Raises HmiError."""
        idempotency_key = check_key(request.headers.get(idempotency.HEADER))
        tenant = self.enter_tenant_of(request, call.model)
        if call.stream:
            if idempotency_key is not None:
                raise unsupported(
                    idempotency.HEADER, "Streams do not support idempotency keys. Omit the key."
                )
            return self._stream(self._run(request, call, tenant), call)

        seconds = float(settings.HMI_GENERATION_DEADLINE_S)
        claim = claim_answer(tenant=tenant.slug, key=idempotency_key, body=request.data, seconds=seconds)
        return self.answer_later(
            lambda: self._submit(self._run(request, call, tenant)),
            lambda answer: json_response(answer["body"], answer["headers"]),
            claim=claim,
        )

    def _run(self, request: Request, call: GenerationCall, tenant: Tenant) -> CompletionRun:
        """A run that is not submitted yet."""
        prepared = prepare_completion(call, tenant=tenant, key=key_of(request), request_id=self.request_id)
        self.request_trace.set_model(
            prepared.model, inputs=len(prepared.prompts), tokens=prepared.prompt_tokens
        )
        self.request_trace.keep_texts(lambda: texts_of(call))
        return CompletionRun(prepared, self.request_trace, caller_check(request, tenant))

    def _submit(self, run: CompletionRun) -> SubmittedCall[CompletedChoices]:
        """Submit the run. Its answer is the body and the headers of the response."""
        heading = heading_of(run.prepared)
        run.submit()

        def conclude(outcome: Outcome[CompletedChoices]) -> dict[str, Any]:
            with run.closed_at_end():
                body = response_json(self.style, heading, outcome(), run.usage)
            headers = headers_of(heading)
            if number_format := body.get("hmi", {}).get("number_format"):
                headers[NUMBER_FORMAT] = number_format
            return {"body": body, "headers": headers}

        return SubmittedCall(run.complete, conclude, run.cancel)

    def _stream(self, run: CompletionRun, call: GenerationCall) -> HttpResponseBase:
        heading = heading_of(run.prepared)
        run.submit()
        self.request_trace.deferred = True
        response = stream_response(run, self.style, heading, call)
        for name, value in headers_of(heading).items():
            response.headers[name] = value
        return response


class ChatCompletionsView(GenerationView):
    """`POST /v1/chat/completions`."""

    api = RequestApi.CHAT
    style = CHAT

    @extend_schema(
        operation_id="openai_chat_completions",
        request={"application/json": ChatCompletionRequestSerializer},
        responses={
            (200, "application/json"): ChatCompletionSerializer,
            (200, EVENTS): OpenApiTypes.ANY,
            **ERRORS,
        },
        parameters=PARAMETERS,
        examples=[OpenApiExample("A question", QUESTION, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Create a chat completion."""
        return self.answer(request, ChatCall.parse(request.data))


class CompletionsView(GenerationView):
    """`POST /v1/completions`."""

    api = RequestApi.COMPLETIONS
    style = TEXT

    @extend_schema(
        operation_id="openai_completions",
        request={"application/json": CompletionRequestSerializer},
        responses={
            (200, "application/json"): CompletionSerializer,
            (200, EVENTS): OpenApiTypes.ANY,
            **ERRORS,
        },
        parameters=PARAMETERS,
        examples=[OpenApiExample("A prompt", PROMPT, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Create text completions."""
        return self.answer(request, CompletionCall.parse(request.data))


def heading_of(prepared: PreparedCompletion) -> Heading:
    """What all objects of the answer begin with."""
    model = prepared.model
    name = f"{answered_name(model, root=prepared.admission.root)}:{model.version}"
    return Heading(prepared.request_id, int(time.time()), name, model.digest, prepared.ignored)


def headers_of(heading: Heading) -> dict[str, str]:
    """The headers of the answer."""
    return {MODEL: heading.model, DIGEST: heading.digest}


def caller_check(request: Request, tenant: Tenant) -> Callable[[], None]:
    """What raises HmiError once the request would be refused: its key was revoked, has expired or lost its
    scope, its member was removed or signed out, or the tenant is suspended or being deleted."""
    key = key_of(request)
    if key is not None:
        return partial(_check_key, key)
    return partial(_check_session, request.session.session_key, tenant.slug)


def _check_key(key: ApiKey) -> None:
    require_scope(api_key_still_usable(key), Scope.INFER)


def _check_session(session_key: str | None, slug: str) -> None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    tenant_for(get_user(request), slug, ROLE_OF_SCOPE[Scope.INFER])
