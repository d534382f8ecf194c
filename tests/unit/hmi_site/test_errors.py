"""How errors leave the site."""

import json
from typing import Any

import pytest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.test import RequestFactory
from pytest_django import Settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from hmi_site.http import errors
from hmi_site.http.middleware import ErrorPages, RequestGuard
from tenants.base.errors import ErrorCode, HmiError

FORM = "application/x-www-form-urlencoded"


class Body(serializers.Serializer[Any]):
    model = serializers.CharField()
    inputs = serializers.ListField(child=serializers.CharField(), max_length=3)


class Echo(APIView):
    authentication_classes = ()
    permission_classes = ()

    def post(self, request: Request) -> Response:
        body = Body(data=request.data)
        body.is_valid(raise_exception=True)
        return Response(body.validated_data)


def post(content: Any, content_type: str = "application/json") -> tuple[int, dict[str, Any]]:
    request = APIRequestFactory().generic("POST", "/api/v1/echo", content, content_type)
    response = Echo.as_view()(request)
    response.render()
    return response.status_code, json.loads(response.content)


@pytest.mark.parametrize(
    ("content", "code", "param"),
    [
        (b"{", "invalid_json", None),
        (b"", "missing_field", "model"),
        (b"\xff\xfe{}", "invalid_encoding", None),
        (b'{"model": NaN}', "invalid_json", None),
        (b"[" * 100_000, "invalid_json", None),
        (b'{"model": "m", "inputs": ["a", "b\\u0000c"]}', "invalid_encoding", "inputs.1"),
        (b'{"model": "\\ud800", "inputs": ["a"]}', "invalid_encoding", "model"),
        (b'{"m\\u0000": 1}', "invalid_encoding", "m\0"),
        (b'{"m\\ud800": 1}', "invalid_encoding", None),
        (b'{"m": {"\\ud800": {"a": "\\u0000"}}}', "invalid_encoding", "m"),
        (b"[]", "invalid_field", None),
        (b'{"inputs": ["a"]}', "missing_field", "model"),
        (b'{"model": "m", "inputs": "a"}', "invalid_field", "inputs"),
        (b'{"model": "m", "inputs": ["a", {}]}', "invalid_field", "inputs.1"),
    ],
)
def test_bad_bodies_are_refused_with_the_place(content: bytes, code: str, param: str | None) -> None:
    status, answer = post(content)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (422, code, param)
    assert answer["error"]["type"] == "invalid_request"
    assert answer["error"]["message"]


def test_a_good_body_passes() -> None:
    text = "né \N{GRINNING FACE}"
    assert post(json.dumps({"model": "m", "inputs": [text]}).encode()) == (
        200,
        {"model": "m", "inputs": [text]},
    )


def test_a_body_beyond_the_limit_is_refused_even_if_its_length_was_not_declared(settings: Settings) -> None:
    settings.HMI_MAX_BODY_BYTES = 100
    status, answer = post(b'{"model": "' + b"x" * 200 + b'"}')
    assert (status, answer["error"]["code"]) == (413, "body_too_large")


def test_an_unknown_content_type_and_method_are_typed_errors() -> None:
    status, answer = post(b"<a/>", "text/xml")
    assert (status, answer["error"]["code"]) == (415, "unsupported_type")
    assert "Accepted: application/json" in answer["error"]["message"]
    response = Echo.as_view()(APIRequestFactory().get("/api/v1/echo"))
    assert response.status_code == 405
    assert response["Allow"] == "POST, OPTIONS"
    assert response.data["error"]["code"] == "method_not_allowed"


def test_the_shape_tells_when_to_come_back() -> None:
    busy = HmiError(ErrorCode.QUEUE_FULL, "Too much.", retry_after=2)
    response = errors.error_response(RequestFactory().get("/api/v1/x"), busy)
    assert (response.status_code, response["Retry-After"]) == (429, "2")


def test_who_is_not_signed_in_is_told_how() -> None:
    response = errors.error_response(
        RequestFactory().get("/api/x"), HmiError(ErrorCode.UNAUTHENTICATED, "No key.")
    )
    assert (response.status_code, response["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("handler", "status", "code"),
    [
        (lambda request: errors.not_found(request, Http404()), 404, "not_found"),
        (lambda request: errors.internal(request), 500, "internal"),
        (lambda request: errors.csrf_failure(request), 403, "forbidden"),
    ],
)
def test_handlers_answer_programs_in_json_and_people_with_a_page(
    handler: Any, status: int, code: str
) -> None:
    answer = handler(RequestFactory().get("/api/v1/nothing"))
    assert (answer.status_code, json.loads(answer.content)["error"]["code"]) == (status, code)
    page = handler(RequestFactory().get("/nothing"))
    assert page.status_code == status
    assert page["Content-Type"].startswith("text/html")
    assert b"<html" in page.content.lower()


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/v1/models/", b"end without a slash"),
        ("/v1/chat/completions", b"/api/docs/"),
    ],
)
def test_who_asks_at_an_address_of_nothing_is_told_where_to_look(path: str, hint: bytes) -> None:
    assert hint in errors.not_found(RequestFactory().get(path), Http404()).content


def test_a_page_shows_the_message_escaped() -> None:
    page = errors.error_response(
        RequestFactory().get("/x"), HmiError(ErrorCode.CONFLICT, "<script>alert(1)</script>")
    )
    assert page.status_code == 409
    assert b"<script>alert" not in page.content
    assert b"&lt;script&gt;" in page.content


def fine(request: HttpRequest) -> HttpResponse:
    return JsonResponse({})


@pytest.mark.parametrize(
    ("address", "status"),
    [("/api/x%00y", 404), ("/x%00y", 404), ("/api/x?q=%00", 422), ("/api/x?q=%2500", 200)],
)
def test_nul_in_an_address_goes_no_further(address: str, status: int) -> None:
    assert RequestGuard(fine)(RequestFactory().get(address)).status_code == status


@pytest.mark.parametrize(
    ("cookie", "form", "content_type", "code", "param"),
    [
        ('sessionid="\\000abcdefgh"', "", FORM, "invalid_encoding", "sessionid"),
        ("a=b", "chosen=a&chosen=dataset:1%00", FORM, "invalid_encoding", "chosen"),
        ("a=b", "na%00me=a", FORM, "invalid_encoding", "na\0me"),
        ("a=b", "name=a", f"{FORM}; charset=unicode_escape", "unsupported_type", "Content-Type"),
        ("a=b", "name=a", f"{FORM}; charset=zlib", "unsupported_type", "Content-Type"),
        ("a=b", "name=a&x=%ff%ed%a0%80", f"{FORM}; charset=UTF-8", None, None),
        ("a=b", "name=a", FORM, None, None),
    ],
)
def test_cookies_and_forms_with_nul_or_in_another_charset_are_refused(
    cookie: str, form: str, content_type: str, code: str | None, param: str | None
) -> None:
    guard = RequestGuard(fine)
    headers = {"Cookie": cookie}
    request = RequestFactory().generic("POST", "/api/x", form, content_type, headers=headers)
    answer = guard(request)
    if answer.status_code == 200:
        answer = guard.process_view(request, fine) or answer
    error = json.loads(answer.content).get("error", {})
    assert (error.get("code"), error.get("param")) == (code, param)
    assert answer.status_code == {None: 200, "invalid_encoding": 422, "unsupported_type": 415}[code]


@pytest.mark.parametrize("charset", ["unicode_escape", "zlib", "utf-16"])
def test_a_query_string_is_utf_8_whatever_charset_the_content_type_names(charset: str) -> None:
    request = RequestFactory().get("/x?q=a%5Cx00", content_type=f"text/plain; charset={charset}")
    assert RequestGuard(fine)(request).status_code == 200
    assert request.GET["q"] == r"a\x00"


@pytest.mark.parametrize("length", ["9" * 5000, "\u00b2", "-1", "1e3"])
def test_a_declared_length_that_is_no_number_of_bytes_is_refused(length: str) -> None:
    request = RequestFactory().post("/api/x", b"", content_type="application/json")
    request.META["CONTENT_LENGTH"] = length
    assert RequestGuard(fine)(request).status_code == 400


def test_a_declared_length_beyond_the_limit_is_refused_before_it_is_read(settings: Settings) -> None:
    settings.HMI_MAX_BODY_BYTES = 10
    request = RequestFactory().post("/api/x", b"x" * 11, content_type="application/json")
    answer = RequestGuard(fine)(request)
    assert answer.status_code == 413
    assert json.loads(answer.content)["error"]["details"] == {"size": 11, "limit": 10}


@pytest.mark.parametrize(
    ("address", "status", "much"),
    [("/v1/files", 200, 413), ("/t/acme/batches/", 200, 413), ("/x", 413, 413), ("/login/", 413, 413)],
)
def test_only_addresses_that_take_files_take_large_forms(
    settings: Settings, address: str, status: int, much: int
) -> None:
    settings.HMI_UPLOAD_MAX_BYTES = 2 * 1024**2
    guard = RequestGuard(fine)
    assert guard(RequestFactory().post(address, {"a": "b" * 2 * 1024**2})).status_code == status
    assert guard(RequestFactory().post(address, {"a": "b" * 4 * 1024**2})).status_code == much
    assert guard(RequestFactory().post(address, b" " * 2 * 1024**2, "application/json")).status_code == 413


def test_inference_takes_larger_bodies_than_other_addresses(settings: Settings) -> None:
    settings.HMI_MAX_BODY_BYTES = 3 * 1024**2
    for address, size, status in (("infer", 2, 200), ("infer", 4, 413), ("webhooks", 2, 413)):
        content = b" " * size * 1024**2
        request = RequestFactory().post(f"/api/v1/{address}", content, "application/json")
        assert RequestGuard(fine)(request).status_code == status


def test_a_typed_error_of_a_page_becomes_a_page_and_others_are_left_to_django() -> None:
    pages = ErrorPages(fine)
    request = RequestFactory().get("/x")
    shown = pages.process_exception(request, HmiError(ErrorCode.HAS_DEPENDENTS, "Others need it."))
    assert shown is not None
    assert shown.status_code == 409
    assert b"Others need it." in shown.content
    assert pages.process_exception(request, ValueError("a bug")) is None
