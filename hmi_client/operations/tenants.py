"""The tenant of the API key, and its request log."""

from collections.abc import Iterator

from hmi_client.connection import Connection
from hmi_client.errors import unauthenticated
from hmi_client.responses import LoggedRequest, Tenant, Usage, from_json
from hmi_client.server import json_of, url_path


class TenantMethods(Connection):
    """The tenant of the API key, its usage and its request log."""

    def whoami(self) -> Tenant:
        """Get the tenant that the API key belongs to."""
        response = self._request("GET", "tenants")
        results = json_of(response)["results"]
        if not results:
            raise unauthenticated("The key belongs to no tenant.")
        return from_json(Tenant, results[0])

    def get_usage(self, tenant: str) -> Usage:
        """Get a tenant's usage and quota. The key needs the scope `manage`."""
        return self._get(Usage, url_path("tenants", tenant))

    def list_requests(
        self,
        *,
        model: str | None = None,
        status: str | None = None,
        code: str | None = None,
        key: str | None = None,
        since: str | None = None,
        until: str | None = None,
        request_id: str | None = None,
    ) -> Iterator[LoggedRequest]:
        """List logged infer requests, newest first. The key needs the scope `manage`.

        ``status`` is ``answered``, ``refused`` or ``failed``; ``key`` is the prefix of an API key, "" for the
        browser; ``since`` and ``until`` are ISO 8601 times; ``request_id`` is the beginning of an id.
        """
        filters = {
            "model": model,
            "status": status,
            "code": code,
            "key": key,
            "since": since,
            "until": until,
            "request_id": request_id,
        }
        return self._pages(LoggedRequest, "requests", filters)
