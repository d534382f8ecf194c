"""Requests of a signed-in person, for what no API key may do: managing API keys."""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from hmi_client.connection import TIMEOUT_S, query_of
from hmi_client.errors import ApiError, ConnectionFailed, HmiError, api_error, unauthenticated
from hmi_client.responses import ApiKey, Tenant, from_json
from hmi_client.server import API_PREFIX, USER_AGENT, Server, http_client, json_of, url_path

T = TypeVar("T")
LOGIN: Final = "/login/"
SECOND_FACTOR: Final = "/second-factor/authenticate/"
CSRF_COOKIE: Final = "hmi_csrf"
"""The cookie's name begins with it."""


class LoginSession:
    """A session of a person, as in a browser. Nothing of it is saved, and it ends with the block.

    ``code`` is asked for the code of a second factor, if the person has one. Raises AuthenticationFailed if
    the user name, the password or the code is wrong.
    """

    def __init__(self, url: str, user: str, password: str, code: Callable[[], str]) -> None:
        self._url = Server(url, "", TIMEOUT_S).url
        self._http = http_client(httpx.Client)
        try:
            self._sign_in(user, password, code)
        except BaseException:
            self._http.close()
            raise

    def tenants(self) -> list[Tenant]:
        """The tenants that the person is a member of."""
        return [*self._pages(Tenant, "tenants")]

    def list_api_keys(self, tenant: str) -> Iterator[ApiKey]:
        """List the tenant's API keys, newest first."""
        return self._pages(ApiKey, url_path("tenants", tenant, "api-keys"))

    def create_api_key(
        self, tenant: str, name: str, *, scopes: list[str], expires_at: str | None = None
    ) -> ApiKey:
        """Create an API key. Its ``key`` is in this response only."""
        body = {"name": name, "scopes": scopes, "expires_at": expires_at}
        made = self._request("POST", API_PREFIX + url_path("tenants", tenant, "api-keys"), json=body)
        return from_json(ApiKey, json_of(made))

    def revoke_api_key(self, tenant: str, prefix: str) -> None:
        """Revoke an API key."""
        self._request("DELETE", API_PREFIX + url_path("tenants", tenant, "api-keys", prefix))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._request("POST", "/logout/", data={"csrfmiddlewaretoken": self._token})
        except HmiError:
            pass  # the session expires by itself
        finally:
            self._http.close()

    def _sign_in(self, user: str, password: str, code: Callable[[], str]) -> None:
        self._request("GET", LOGIN)
        went = self._submit(LOGIN, {"login": user, "password": password})
        if went is None:
            raise unauthenticated("The user name or the password is wrong.")
        if SECOND_FACTOR in went and self._submit(SECOND_FACTOR, {"code": code()}) is None:
            raise unauthenticated("The code is wrong.")

    def _submit(self, path: str, fields: Mapping[str, str]) -> str | None:
        """Submit a form. Where it leads; None if the server shows it again."""
        response = self._request("POST", path, data={**fields, "csrfmiddlewaretoken": self._token})
        return response.headers.get("Location") if response.is_redirect else None

    @property
    def _token(self) -> str:
        cookies = [each.value for each in self._http.cookies.jar if each.name.startswith(CSRF_COOKIE)]
        return str(cookies[-1]) if cookies else ""

    def _pages(self, kind: type[T], path: str) -> Iterator[T]:
        query: dict[str, Any] = {}
        while True:
            page = json_of(self._request("GET", API_PREFIX + path, params=query or None))
            for item in page["results"]:
                yield from_json(kind, item)
            if not page.get("next"):
                return
            query = query_of(page["next"])

    def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        headers = {"User-Agent": USER_AGENT, "Referer": f"{self._url}/", "X-CSRFToken": self._token}
        try:
            response = self._http.request(
                method, f"{self._url}{path}", headers=headers, timeout=TIMEOUT_S, **content
            )
        except httpx.RequestError as error:
            raise ConnectionFailed(f"{self._url} cannot be reached.") from error
        if response.is_error:
            raise self._error(path, response)
        return response

    def _error(self, path: str, response: httpx.Response) -> ApiError:
        error = api_error(response, None)
        if path in (LOGIN, SECOND_FACTOR):
            error.message = (
                f"Signing in failed ({response.status_code}). After many attempts, wait some minutes."
            )
        return error
