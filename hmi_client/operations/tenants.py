"""Who asks."""

from hmi_client.errors import AuthenticationFailed
from hmi_client.flow import Call, Flow, ask
from hmi_client.requests import get, path_of
from hmi_client.responses import Tenant, Usage, from_json


def whoami() -> Flow[Tenant]:
    """The tenant that the key belongs to."""
    response = yield from ask(Call("GET", "tenants"))
    results = response.json()["results"]
    if not results:
        raise AuthenticationFailed(
            "The key belongs to no tenant.", status=401, code="unauthenticated", type="authentication"
        )
    return from_json(Tenant, results[0])


def usage(tenant: str) -> Flow[Usage]:
    """What the tenant may have and has; the key needs the scope `manage`."""
    return (yield from get(Usage, path_of("tenants", tenant)))
