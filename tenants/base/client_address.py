"""From where a request comes."""

from contextvars import ContextVar
from ipaddress import IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.http import HttpRequest

_asking: ContextVar[HttpRequest | None] = ContextVar("asking", default=None)


def answering(request: HttpRequest | None) -> None:
    """What is done from here on is done for this request; None: for none."""
    _asking.set(request)


def asking_address() -> str | None:
    """The address of the client whose request is being answered; None where there is none, or it is not an IP
    address."""
    request = _asking.get()
    try:
        return str(ip_address(client_address(request))) if request is not None else None
    except ValueError:
        return None


def client_address(request: HttpRequest) -> str:
    """The address of the client: the connection's, or, behind HMI_TRUSTED_PROXIES proxies, the one that the
    outermost of them wrote into `X-Forwarded-For`. What stands left of it anybody may have made up.
    """
    return forwarded_address(
        request.META.get("REMOTE_ADDR") or "", request.headers.get("X-Forwarded-For", "")
    )


def forwarded_address(connected: str, forwarded_for: str) -> str:
    """`client_address`, from the address of the connection and the value of `X-Forwarded-For`."""
    told = forwarded_for.split(",")
    count = settings.HMI_TRUSTED_PROXIES
    if not 0 < count <= len(told):
        return connected
    try:
        return str(ip_address(told[-count].strip()))
    except ValueError:
        return connected


def counted_address(request: HttpRequest) -> str:
    """`client_address` for counting tries (`address_to_count`)."""
    return address_to_count(client_address(request))


def address_to_count(address: str) -> str:
    """The address itself; of IPv6 the first 64 bits, since whoever has one such address has all that begin
    alike.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address) or parsed.ipv4_mapped:
        return address
    return str(IPv6Network((parsed, 64), strict=False).network_address)
