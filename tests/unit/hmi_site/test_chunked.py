"""Bodies without a declared length."""

import io
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pytest_django import Settings

from hmi_site.chunked import measured


def seen_by_application(environ: dict[str, Any]) -> tuple[str | None, bytes]:
    """The declared length and the body that reach the application."""
    seen: list[tuple[str | None, bytes]] = []

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        seen.append((environ.get("CONTENT_LENGTH"), environ["wsgi.input"].read()))
        return [b""]

    measured(application)(environ, lambda *_: None)
    return seen[0]


def chunked(body: bytes, content_type: str = "application/json") -> dict[str, Any]:
    return {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_TYPE": content_type,
        "wsgi.input": io.BytesIO(body),
    }


def test_a_chunked_body_gets_its_length() -> None:
    assert seen_by_application(chunked(b"{}")) == ("2", b"{}")


def test_a_body_with_a_length_is_left_alone() -> None:
    environ = {**chunked(b"abc"), "CONTENT_LENGTH": "3"}
    assert seen_by_application(environ) == ("3", b"abc")
    assert seen_by_application({"wsgi.input": io.BytesIO(b"")}) == (None, b"")


@pytest.mark.parametrize(
    ("content_type", "read"), [("application/json", 11), ("multipart/form-data; boundary=x", 1000)]
)
def test_no_more_is_read_than_needed_to_refuse_it(settings: Settings, content_type: str, read: int) -> None:
    settings.HMI_MAX_BODY_BYTES = 10
    assert len(seen_by_application(chunked(b"x" * 1000, content_type))[1]) == read
