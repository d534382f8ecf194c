"""Validation of webhook URLs and of the IP addresses of their hosts."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

import httpx
from django.conf import settings

from tenants.base.errors import ErrorCode, HmiError
from tenants.webhooks.models import MAX_URL_LENGTH

HOST_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9.])?")


def clean_url(url: str) -> str:
    """The URL, or ``missing_field`` / ``invalid_field``. Each delivery resolves and checks its host."""
    text = url.strip()
    if not text:
        raise HmiError(ErrorCode.MISSING_FIELD, "A URL is required.", param="url")
    if len(text) > MAX_URL_LENGTH:
        raise _invalid(f"A URL has at most {MAX_URL_LENGTH:,} characters.")
    try:
        parsed = httpx.URL(text)
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError):
        raise _invalid("This is not a URL. Example: https://example.org/hooks.") from None
    schemes = ("https", "http") if settings.HMI_WEBHOOK_NETWORKS else ("https",)
    if parsed.scheme not in schemes or not host:
        raise _invalid(f"The URL must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}.")
    if parsed.userinfo:
        raise _invalid("The URL must not contain a user name or password. Requests are signed instead.")
    if parsed.fragment:
        raise _invalid("The URL must not contain a fragment (#…).")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise _invalid("The port must be a number from 1 to 65535.")
    is_address = _is_ip_address(host)
    if not is_address and not HOST_NAME.fullmatch(host):
        raise _invalid("The host of the URL is not a valid host name.")
    if is_address and not is_allowed(host):
        raise _invalid("Webhooks are not sent to private or reserved addresses.")
    if is_address and parsed.scheme == "http" and not _is_in_networks(host):
        raise _invalid("The address is public: use https.")
    return text


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_FIELD, message, param="url")


Address = IPv4Address | IPv6Address
NAT64: Final = IPv6Network("64:ff9b::/96")
NON_PUBLIC_NETWORKS: Final = (
    IPv6Network("::/96"),  # IPv4-compatible, :: and ::1
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a local network
    IPv6Network("100::/64"),  # discarded
    IPv6Network("2001::/23"),  # Teredo and other protocols
    IPv6Network("2002::/16"),  # 6to4
    IPv6Network("3fff::/20"),  # documentation
    IPv6Network("5f00::/16"),  # segment routing
    IPv6Network("fec0::/10"),  # site-local
)
"""Networks that some releases of Python call global although they are not."""


class AddressNotAllowed(Exception):
    """The host has no address, or one to which webhooks may not be sent."""


def check_addresses(addresses: Iterable[str], *, scheme: str = "https") -> list[str]:
    """The addresses of a host without duplicates. Raises ``AddressNotAllowed`` unless all are allowed:
    by http only those in the operator's networks."""
    unique = list(dict.fromkeys(addresses))
    if not unique:
        raise AddressNotAllowed("The host name has no address.")
    if not all(map(is_allowed, unique)):
        raise AddressNotAllowed("The host name resolves to a private or reserved address.")
    if scheme == "http" and not all(map(_is_in_networks, unique)):
        raise AddressNotAllowed("The address is public: use https.")
    return unique


def is_allowed(text: str) -> bool:
    """Whether an address, as text, is public or allowed by the operator."""
    return _is_ip_address(text) and (is_public(unwrap_ipv4(ip_address(text))) or _is_in_networks(text))


def _is_in_networks(text: str) -> bool:
    """Whether an address is in one of the networks that the operator allows."""
    address, networks = unwrap_ipv4(ip_address(text)), settings.HMI_WEBHOOK_NETWORKS
    return any(address in network for network in networks if network.version == address.version)


def unwrap_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address maps to, or the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def is_public(address: Address) -> bool:
    """Whether the address is unicast and reachable on the public internet."""
    if isinstance(address, IPv6Address) and (
        address.scope_id is not None or any(address in network for network in NON_PUBLIC_NETWORKS)
    ):
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_unspecified
        and not address.is_loopback
        and not address.is_link_local
    )
