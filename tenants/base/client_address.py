"""The IP address of the client of a request."""

from contextvars import ContextVar
from ipaddress import IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.http import HttpRequest

_current_request: ContextVar[HttpRequest | None] = ContextVar("current_request", default=None)


def set_current_request(request: HttpRequest | None) -> None:
    """Set the request that this thread or coroutine handles, or None."""
    _current_request.set(request)


def current_client_address() -> str | None:
    """Return the client's address of the current request, or None if there is none or it is no IP address."""
    request = _current_request.get()
    try:
        return str(ip_address(client_address(request))) if request is not None else None
    except ValueError:
        return None


def client_address(request: HttpRequest) -> str:
    """Return the client's address: that of the connection or, behind HMI_TRUSTED_PROXIES proxies, the one
    that the outermost proxy wrote into `X-Forwarded-For`. Entries left of it may be forged.
    """
    return forwarded_address(
        request.META.get("REMOTE_ADDR") or "", request.headers.get("X-Forwarded-For", "")
    )


def forwarded_address(connected: str, forwarded_for: str) -> str:
    """Return `client_address`, given the connection's address and the value of `X-Forwarded-For`."""
    hops = forwarded_for.split(",")
    count = settings.HMI_TRUSTED_PROXIES
    if not 0 < count <= len(hops):
        return connected
    try:
        return str(ip_address(hops[-count].strip()))
    except ValueError:
        return connected


def rate_limit_address(request: HttpRequest) -> str:
    """Return the client's address as rate limits count it (`rate_limit_network`)."""
    return rate_limit_network(client_address(request))


def rate_limit_network(address: str) -> str:
    """Return an IPv4 address unchanged, and the /64 network of an IPv6 address, which one client controls."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address) or parsed.ipv4_mapped:
        return address
    return str(IPv6Network((parsed, 64), strict=False).network_address)
