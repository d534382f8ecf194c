"""What makes an address that webhooks can be sent to."""

import re
from ipaddress import ip_address
from typing import Final

import httpx
from django.conf import settings

from tenants.base.errors import ErrorCode, HmiError
from tenants.webhooks.addresses import permitted
from tenants.webhooks.models import LONGEST_URL

HOST_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9.])?")


def clean_url(url: str) -> str:
    """The address, or ``missing_field`` / ``invalid_field``. Where its name leads is looked at each time
    something is sent."""
    text = url.strip()
    if not text:
        raise HmiError(ErrorCode.MISSING_FIELD, "An address is needed.", param="url")
    if len(text) > LONGEST_URL:
        raise _invalid(f"An address has at most {LONGEST_URL:,} characters.")
    try:
        parsed = httpx.URL(text)
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError):
        raise _invalid("This is no address: https://example.org/hooks is one.") from None
    schemes = ("https", "http") if settings.HMI_WEBHOOK_HTTP else ("https",)
    if parsed.scheme not in schemes or not host:
        raise _invalid(f"The address must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}.")
    if parsed.userinfo:
        raise _invalid("A name and password in the address are not sent; requests are signed instead.")
    if parsed.fragment:
        raise _invalid("The part of the address from # on would not be sent; leave it out.")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise _invalid("A port is a number from 1 to 65535.")
    literal = _is_literal(host)
    if not literal and not HOST_NAME.fullmatch(host):
        raise _invalid("This is no name of a host.")
    if literal and not permitted(host):
        raise _invalid("This is a private or reserved address; nothing is sent there.")
    return text


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_FIELD, message, param="url")
