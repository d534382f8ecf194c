"""The tenant of the API key, and its request log."""

from hmi_client.errors import unauthenticated
from hmi_client.flow import ApiRequest, Flow, get, paginate, send, url_path
from hmi_client.responses import LoggedRequest, Tenant, Usage, from_json


def whoami() -> Flow[Tenant]:
    """Get the tenant that the API key belongs to."""
    response = yield from send(ApiRequest("GET", "tenants"))
    results = response.json()["results"]
    if not results:
        raise unauthenticated("The key belongs to no tenant.")
    return from_json(Tenant, results[0])


def get_usage(tenant: str) -> Flow[Usage]:
    """Get a tenant's usage and quota. The key needs the scope `manage`."""
    return (yield from get(Usage, url_path("tenants", tenant)))


def list_requests(
    *,
    model: str | None = None,
    status: str | None = None,
    code: str | None = None,
    key: str | None = None,
    since: str | None = None,
    until: str | None = None,
    request_id: str | None = None,
) -> Flow[None]:
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
    return (yield from paginate(LoggedRequest, "requests", filters))
