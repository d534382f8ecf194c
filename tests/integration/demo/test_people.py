"""The demo's logins and keys: made once, and left alone when people change them."""

import stat
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from demo.people import ADMIN, Login, logins_path, people_ensure
from tenants.accounts.models import ApiKey, User
from tenants.accounts.services.api_keys import api_key_revoke

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings: Settings, tmp_path: Path) -> None:
    settings.HMI_HOME = tmp_path


def can_sign_in(login: Login) -> bool:
    form = {"login": login.username, "password": login.password}
    return Client().post("/login/", form).status_code == 302


def test_each_person_can_sign_in_and_each_tenant_has_a_valid_key() -> None:
    logins = people_ensure()
    assert set(logins) == {ADMIN, "acme", "globex", "initech", "umbrella", "hooli"}
    assert all(can_sign_in(login) for login in logins.values())
    assert all(ApiKey.unscoped.is_valid(login.api_key) for name, login in logins.items() if name != ADMIN)
    assert stat.S_IMODE(logins_path().stat().st_mode) == 0o600


def test_a_second_start_changes_nothing() -> None:
    assert people_ensure() == people_ensure()
    assert ApiKey.unscoped.count() == 5


def test_the_tenant_of_the_generative_model_can_be_left_out_and_is_kept_once_it_is_there() -> None:
    assert "hooli" not in people_ensure(generative=False)
    login = people_ensure()["hooli"]
    assert people_ensure(generative=False)["hooli"] == login


def test_a_changed_password_stays_and_the_stale_one_is_no_longer_shown() -> None:
    key = people_ensure()["acme"].api_key
    user = User.objects.get(username="acme")
    user.set_password("chosen by a person")
    user.save(update_fields=["password"])
    login = people_ensure()["acme"]
    assert login == Login("acme", "", key)
    assert can_sign_in(Login("acme", "chosen by a person"))


def test_a_revoked_key_is_replaced_and_stays_revoked() -> None:
    old = people_ensure()["acme"].api_key
    api_key_revoke(api_key=ApiKey.unscoped.get(name="demo", tenant__slug="acme"), actor=None)
    new = people_ensure()["acme"].api_key
    assert new != old
    assert ApiKey.unscoped.is_valid(new)
    assert not ApiKey.unscoped.is_valid(old)


def test_lost_passwords_are_not_invented() -> None:
    people_ensure()
    logins_path().unlink()
    assert {login.password for login in people_ensure().values()} == {""}


def test_people_whose_names_differ_in_case_alone_are_taken_for_those_of_the_demo() -> None:
    User.objects.create_superuser("Admin", password="chosen by a person")
    User.objects.create_user("Acme", password="chosen by a person")
    logins = people_ensure()
    assert logins[ADMIN] == Login(ADMIN, "")
    assert ApiKey.unscoped.is_valid(logins["acme"].api_key)
    assert people_ensure() == logins
