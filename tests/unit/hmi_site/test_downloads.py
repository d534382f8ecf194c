"""How many downloads one reader may have at a time."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory

from hmi_site.http.download_limit import SMALL_FILE_BYTES, DownloadLimit
from tenants.base.scope import empty_scope
from tenants.base.upload_concurrency import MAX_CONCURRENT_DOWNLOADS


class Site:
    """Sends a file of so many bytes to whoever asks."""

    def __init__(self) -> None:
        self.size = SMALL_FILE_BYTES + 1
        self.files: list[io.BytesIO] = []
        self._answers: list[Any] = []
        self._limit = DownloadLimit(self._send)

    def ask(self, address: str) -> int:
        """The status of the answer, whose content nobody reads."""
        with empty_scope():
            answer: Any = self._limit(RequestFactory().get("/api/file", REMOTE_ADDR=address))
        self._answers.append(answer)
        return int(answer.status_code)

    def end(self) -> None:
        """All that was asked for is sent. (`close` itself also tells Django, which closes connections.)"""
        for answer in self._answers:
            for close in answer._resource_closers:
                close()
        self._answers.clear()

    def _send(self, request: HttpRequest) -> HttpResponseBase:
        self.files.append(io.BytesIO(b"x" * self.size))
        return FileResponse(self.files[-1])


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.end()


def test_one_address_has_so_many_downloads_and_no_more(site: Site) -> None:
    assert [site.ask("203.0.113.1") for _ in range(MAX_CONCURRENT_DOWNLOADS)] == [
        200
    ] * MAX_CONCURRENT_DOWNLOADS
    assert site.ask("203.0.113.1") == 429
    assert site.files[-1].closed  # what is not sent is not held either
    assert site.ask("203.0.113.2") == 200
    site.end()
    assert site.ask("203.0.113.1") == 200


def test_small_files_are_no_downloads(site: Site) -> None:
    site.size = SMALL_FILE_BYTES
    assert {site.ask("203.0.113.3") for _ in range(2 * MAX_CONCURRENT_DOWNLOADS)} == {200}


def test_a_download_that_nobody_closes_ends_with_its_answer() -> None:
    limit = DownloadLimit(lambda _: StreamingHttpResponse([b"x"]))
    for _ in range(2 * MAX_CONCURRENT_DOWNLOADS):
        with empty_scope():
            assert limit(RequestFactory().get("/", REMOTE_ADDR="203.0.113.4")).status_code == 200
