"""The API key and the server's address, checked before they are used. No message quotes either of them."""

import httpx

from hmi_client.errors import HmiError, unauthenticated

BYTE_ORDER_MARK = "\ufeff"


def checked_key(text: str) -> str:
    """The API key without surrounding white space. AuthenticationFailed if it has a character of no key."""
    key = text.removeprefix(BYTE_ORDER_MARK).strip()
    if not (key.isascii() and key.isprintable()):
        raise unauthenticated("The API key has a control or non-ASCII character. Copy the key again.")
    return key


def checked_url(text: str) -> str:
    """The server's address without its final slash. HmiError if it is none, or has a password or a query."""
    address = text.removeprefix(BYTE_ORDER_MARK).strip()
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.userinfo:
        raise HmiError("The server's address has a user name or password. Remove it: the API key is enough.")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise HmiError("The server's address is not valid. Write it as http://127.0.0.1:8000.")
    return address.rstrip("/")
