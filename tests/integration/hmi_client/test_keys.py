"""`hmi keys`, by a person against a running site."""

import json
import re

import pytest
from django.test import Client as Browser

from hmi_client import Client
from hmi_client.errors import AuthenticationFailed
from tests.integration.hmi_client.conftest import Hmi, Product
from tests.integration.tenants.accounts.signing_in import code_of, enter

OWNER = ("--user", "owner")


@pytest.fixture(autouse=True)
def here(site: Product, config: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HMI_URL", site.url)


def test_a_person_makes_lists_and_revokes_keys(hmi: Hmi, site: Product) -> None:
    made = hmi("keys", "new", "ci", "--scope", "manage", "--days", 3, *OWNER, stdin="owner\n")
    assert made.code == 0, made.err
    key = made.out.strip()
    with Client(site.url, key) as client:
        assert client.whoami().slug == "acme"
        listed = json.loads(hmi("keys", "list", *OWNER, "--json", stdin="owner\n").out)
        assert (listed[0]["name"], listed[0]["scopes"]) == ("ci", ["manage"])
        assert listed[0]["expires_at"]
        assert not listed[0]["key"], "it is shown once"
        revoked = hmi("keys", "revoke", key, "--yes", *OWNER, stdin="owner\n")
        assert revoked.code == 0, revoked.err
        assert key not in revoked.err
        with pytest.raises(AuthenticationFailed):
            client.whoami()
    row = next(line for line in hmi("keys", "list", *OWNER, stdin="owner\n").out.splitlines() if "ci" in line)
    assert "revoked" in row


def test_a_wrong_password_and_an_unknown_tenant_have_their_exit_codes(hmi: Hmi) -> None:
    wrong = hmi("keys", "list", *OWNER, stdin="quince\n")
    assert (wrong.code, "The user name or the password is wrong." in wrong.err) == (3, True)
    assert hmi("keys", "list", *OWNER, "--tenant", "umbra", stdin="owner\n").code == 4
    assert "Standard input is empty." in hmi("keys", "list", *OWNER).err


def test_the_code_of_a_second_factor_is_the_next_line(hmi: Hmi, site: Product) -> None:
    browser = Browser()
    enter(browser, "owner", "owner")
    again = browser.get("/second-factor/totp/activate/")
    page = browser.post(again["Location"], {"password": "owner"}, follow=True).content.decode()
    found = re.search(r"Secret: <code>(\w+)</code>", page)
    assert found
    browser.post("/second-factor/totp/activate/", {"code": code_of(found[1])})
    wrong = hmi("keys", "list", *OWNER, stdin="owner\n000000\n")
    assert (wrong.code, "The code is wrong." in wrong.err) == (3, True)
    listed = hmi("keys", "list", *OWNER, stdin=f"owner\n{code_of(found[1], later=True)}\n")
    assert listed.code == 0, listed.err
