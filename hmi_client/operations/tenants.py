"""The tenant of the API key."""

from hmi_client.errors import AuthenticationFailed
from hmi_client.flow import ApiRequest, Flow, get, send, url_path
from hmi_client.responses import Tenant, Usage, from_json


def whoami() -> Flow[Tenant]:
    """Get the tenant that the API key belongs to."""
    response = yield from send(ApiRequest("GET", "tenants"))
    results = response.json()["results"]
    if not results:
        raise AuthenticationFailed(
            "The key belongs to no tenant.", status=401, code="unauthenticated", type="authentication"
        )
    return from_json(Tenant, results[0])


def get_usage(tenant: str) -> Flow[Usage]:
    """Get a tenant's usage and quota. The key needs the scope `manage`."""
    return (yield from get(Usage, url_path("tenants", tenant)))
