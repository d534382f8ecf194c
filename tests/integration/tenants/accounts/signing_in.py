"""Signing in as a browser does: by the form, from an address."""

from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.http import HttpResponse
from django.test import Client

from tests.integration.world import PASSWORD

HERE = "192.0.2.7"


def enter(client: Client, login: str, password: str = PASSWORD, *, address: str = HERE) -> HttpResponse:
    """Send the form."""
    form = {"login": login, "password": password}
    return client.post("/login/", form, headers={"Accept": "text/html"}, REMOTE_ADDR=address)  # type: ignore[return-value]


def signed_in(client: Client) -> bool:
    """Whether the site knows who this is."""
    return "_auth_user_id" in client.session


def code_of(secret: str, *, later: bool = False) -> str:
    """What an authenticator app shows, or `later`, what it shows next: another code, let in already.

    Either stays good where half a minute ends between here and the answer.
    """
    step = 2 if later else 1
    return str(format_hotp_value(hotp_value(secret, list(yield_hotp_counters_from_time())[step])))
