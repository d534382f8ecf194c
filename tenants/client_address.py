"""From where a request comes."""

from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The address of the client: the connection's, or, behind HMI_TRUSTED_PROXIES proxies, the one that the
    outermost of them wrote into `X-Forwarded-For`. What stands left of it anybody may have made up.
    """
    connected: str = request.META.get("REMOTE_ADDR") or ""
    told = request.headers.get("X-Forwarded-For", "").split(",")
    count = settings.HMI_TRUSTED_PROXIES
    if not 0 < count <= len(told):
        return connected
    try:
        return str(ip_address(told[-count].strip()))
    except ValueError:
        return connected
