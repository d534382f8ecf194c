"""Who asks."""

from hmi_client.errors import AuthenticationFailed
from hmi_client.operations.calls import get, path_of
from hmi_client.reading import read
from hmi_client.shapes import Tenant, Usage
from hmi_client.steps import Call, Flow, ask


def whoami() -> Flow[Tenant]:
    """The tenant that the key belongs to."""
    response = yield from ask(Call("GET", "tenants"))
    results = response.json()["results"]
    if not results:
        raise AuthenticationFailed(
            "The key belongs to no tenant.", status=401, code="unauthenticated", type="authentication"
        )
    return read(Tenant, results[0])


def usage(tenant: str) -> Flow[Usage]:
    """What the tenant may have and has; the key needs the scope `manage`."""
    return (yield from get(Usage, path_of("tenants", tenant)))
