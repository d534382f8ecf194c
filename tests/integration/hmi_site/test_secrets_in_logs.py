"""What nobody may read anywhere: after all that a person and a program do, in no line and in no row."""

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from inference.logs import PRODUCT_LOGGERS, formatter
from tenants.base.background_tasks import background_tasks
from tests.integration.tenants.accounts.signing_in import code_of, enter
from tests.integration.tenants.accounts.test_passwords import link_in
from tests.integration.world import PASSWORD, World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]

WRONG, NEW, FIRST = "wrong quince and medlar", "new quince and medlar", "first quince and medlar"
CRASH = "the rowan fell"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """All that is logged where HMI_LOG_LEVEL is `debug`, as the product writes it: lines, and JSON."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers = []
    for style in ("line", "json"):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter(style))
        handlers.append(handler)
        root.addHandler(handler)
    loggers = [root, *(logging.getLogger(name) for name in list(logging.root.manager.loggerDict))]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG if logger.name.partition(".")[0] in PRODUCT_LOGGERS else logging.INFO)
        logger.propagate = True
    yield stream
    for logger, level, propagate in before:
        logger.setLevel(level)
        logger.propagate = propagate
    for handler in handlers:
        root.removeHandler(handler)


def test_no_secret_is_in_a_line_of_the_log_or_a_row_of_the_database(
    world: World, written: io.StringIO, mailoutbox: list[EmailMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Client(raise_request_exception=False)
    enter(browser, "owner", WRONG)
    enter(browser, "owner")
    totp = _set_up_second_factor(browser)
    made = browser.post("/api/v1/tenants/acme/api-keys", {"name": "k", "scopes": ["infer", "manage"]})
    key = made.json()["key"]
    browser.post("/t/acme/keys/new/", {"name": "page", "scopes": ["infer"], "days": "0"})
    token = _invite(browser, mailoutbox)
    _follow_invitation(token)
    reset = _reset_password(mailoutbox)
    program = APIClient(raise_request_exception=False)
    program.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    assert program.get("/api/v1/datasets").status_code == 200
    program.post("/api/v1/infer", {"model": "acme/nobody", "inputs": [key]}, format="json")
    for address in (f"/nowhere/{key}", f"/api/v1/models/{key}?key={key}", f"/t/acme/?token={key}"):
        program.get(address)
    _crash(program, key, monkeypatch)
    _crash_in_a_link(reset, monkeypatch)
    log = written.getvalue()
    assert CRASH in log
    assert "Traceback" in log
    secrets = {
        "the key": key,
        "its secret part": key.split(".")[1],
        "a password": PASSWORD,
        "a wrong password": WRONG,
        "a new password": NEW,
        "a first password": FIRST,
        "the link of an invitation": token,
        "the link of a new password": reset,
        "what an authenticator app holds": totp,
        "a session": browser.cookies[next(name for name in browser.cookies if "session" in name)].value,
    }
    stored = _rows()
    for what, secret in secrets.items():
        assert secret not in log, f"{what} is in the log: {_around(log, secret)}"
        if what != "a session":  # which is its row's key
            assert secret not in stored, f"{what} is in the database: {_around(stored, secret)}"


def _set_up_second_factor(browser: Client) -> str:
    again = browser.get("/second-factor/totp/activate/")
    page = browser.post(again["Location"], {"password": PASSWORD}, follow=True).content.decode()
    found = re.search(r"Secret: <code>(\w+)</code>", page)
    assert found
    answer = browser.post("/second-factor/totp/activate/", {"code": code_of(found[1])})
    assert answer.status_code == 302
    return found[1]


def _invite(browser: Client, mailoutbox: list[EmailMessage]) -> str:
    answer = browser.post("/api/v1/tenants/acme/invitations", {"email": "new@example.org", "role": "viewer"})
    assert answer.status_code == 201, answer.content
    token = str(answer.json()["link"].rstrip("/").rpartition("/")[2])
    assert any(token in str(message.body) for message in mailoutbox)
    return token


def _follow_invitation(token: str) -> None:
    guest = Client(raise_request_exception=False)
    guest.post(f"/invitations/{token}/")  # is not allowed, which Django logs with the address
    guest.get(f"/invitations/{token}/", follow=True)
    form = {"username": "guest", "email": "new@example.org", "password1": FIRST, "password2": FIRST}
    guest.post("/signup/", form)


def _reset_password(mailoutbox: list[EmailMessage]) -> str:
    guest = Client()
    guest.post("/password/reset/", {"email": "viewer@example.org"})
    background_tasks.join()
    link = link_in(next(message for message in mailoutbox if message.to == ["viewer@example.org"]))
    guest.delete(link)
    form = guest.get(link, follow=True)
    guest.post(form.redirect_chain[-1][0], {"password1": NEW, "password2": NEW})
    return link.rstrip("/").rpartition("-")[2]


def _crash(program: APIClient, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something fails while the key stands in local variables, in the header and in the address."""

    def fall(*_: Any, **__: Any) -> None:
        held = key
        raise RuntimeError(CRASH) if held else AssertionError

    monkeypatch.setattr("tenants.accounts.api.tenants.quota_of", fall)
    answer = program.get(f"/api/v1/tenants/acme?key={key}", headers={"X-Api-Key": key})
    assert answer.status_code == 500
    assert key not in answer.content.decode()


def _crash_in_a_link(reset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"{CRASH} on {reset}")

    monkeypatch.setattr("allauth.account.views.UserTokenForm", fall)
    answer = Client(raise_request_exception=False).get(f"/password/reset/key/1-{reset}/")
    assert answer.status_code == 500
    assert reset not in answer.content.decode()


def _rows() -> str:
    """Every row of every table, as text."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        found = []
        for name in names:
            cursor.execute(f'SELECT to_jsonb(t)::text FROM "{name}" t')  # noqa: S608 - our own tables
            found += [json.dumps(json.loads(row)) for (row,) in cursor.fetchall()]
    return "\n".join(found)


def _around(text: str, secret: str) -> str:
    at = text.index(secret)
    return text[max(0, at - 200) : at + len(secret) + 50]
