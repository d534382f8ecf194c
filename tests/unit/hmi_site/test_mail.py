"""The mail server that HMI_EMAIL_URL names."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from hmi_site.server_urls import mail_server


def test_without_a_url_messages_go_to_the_log() -> None:
    assert mail_server("").backend.endswith("console.EmailBackend")


def test_a_url_names_server_port_and_login() -> None:
    server = mail_server("smtp://hmi%40example.org:p%2Fw@mail.example:2525")
    assert (server.host, server.port, server.user, server.password) == (
        "mail.example", 2525, "hmi@example.org", "p/w",
    )  # fmt: skip
    assert server.backend.endswith("smtp.EmailBackend")


@pytest.mark.parametrize(
    ("url", "port", "starttls", "tls"), [("smtp://m", 587, True, False), ("smtps://m", 465, False, True)]
)
def test_messages_always_travel_encrypted(url: str, port: int, starttls: bool, tls: bool) -> None:
    server = mail_server(url)
    assert (server.port, server.starttls, server.tls) == (port, starttls, tls)


@pytest.mark.parametrize("url", ["mail.example", "http://mail.example", "smtp://", "smtp://m:port"])
def test_what_is_no_mail_server_stops_the_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="HMI_EMAIL_URL must look like"):
        mail_server(url)
