"""The server's address and the API key, and the requests that are sent to it."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import httpx

from hmi_client.credentials import checked_key, checked_url
from hmi_client.errors import ConnectionFailed, HmiError
from hmi_client.version import __version__

T = TypeVar("T")
HttpClient = TypeVar("HttpClient", httpx.Client, httpx.AsyncClient)

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HMI_URL"
KEY_VARIABLE = "HMI_API_KEY"
API_PREFIX = "/api/v1/"
USER_AGENT = f"hmi-client/{__version__}"


class Server:
    """The address and the key, by default those of HMI_URL and HMI_API_KEY."""

    def __init__(self, url: str | None, api_key: str | None, timeout_s: float) -> None:
        self.url = checked_url(url or os.environ.get(URL_VARIABLE, "").strip() or DEFAULT_URL)
        self._key = checked_key(api_key or "") or checked_key(os.environ.get(KEY_VARIABLE, ""))
        self._timeout_s = timeout_s

    def request(
        self,
        http: httpx.Client | httpx.AsyncClient,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        **content: Any,
    ) -> httpx.Request:
        """A request below ``/api/v1/``, or to a ``path`` that begins with a slash. ``content``: the
        ``params``, ``json``, ``content``, ``data`` or ``files`` of httpx. HmiError if it cannot be sent as
        HTTP."""
        authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            return http.build_request(
                method,
                f"{self.url}{'' if path.startswith('/') else API_PREFIX}{path}",
                headers={"User-Agent": USER_AGENT, **authorization, **(headers or {})},
                timeout=timeout_s or self._timeout_s,
                **content,
            )
        except (UnicodeEncodeError, httpx.InvalidURL):
            raise HmiError(
                "The request has a character that cannot be sent: half of a surrogate pair, or a non-ASCII "
                "character in a header."
            ) from None


def http_client(kind: type[HttpClient]) -> HttpClient:
    """An HTTP client that is configured by the environment. HmiError if that has a proxy that is none."""
    try:
        return kind()
    except (ValueError, ImportError, OSError, httpx.InvalidURL):
        raise HmiError(
            "The environment has a proxy or a certificate file that cannot be used: check HTTP_PROXY, "
            "HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
        ) from None  # which may name a proxy with its password


def json_of(response: httpx.Response) -> Any:
    """The JSON value of a response. ConnectionFailed if it has none."""
    try:
        return response.json()
    except ValueError:
        raise ConnectionFailed("The response is not JSON. Does the server's address lead to HMI?") from None


def url_path(*parts: str | int) -> str:
    """Join names and ids to a path. HmiError if one contains a character that would change the path."""
    for part in parts:
        if not str(part) or any(sign in str(part) for sign in "/?#%\\") or str(part) in (".", ".."):
            raise HmiError(f"{part!r} is not a valid name or id.")
    return "/".join(map(str, parts))


def as_list(values: str | Mapping[str, Any] | Iterable[T]) -> list[T]:
    """The values as a list. A string or a mapping is one value: nobody means its letters or its keys."""
    return cast("list[T]", [values] if isinstance(values, str | Mapping) else list(values))
