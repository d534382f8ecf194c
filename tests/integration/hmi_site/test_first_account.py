"""The first tenant, user and key, which the environment names."""

import re

import pytest
from django.conf import settings as django_settings
from django.core.checks import run_checks
from django.test import Client
from pytest_django import Settings

from hmi_site.embedded.process import ChildError
from hmi_site.launcher.first_account import FirstAccount, first_account_ensure
from tenants.accounts.authentication import api_key_from
from tenants.accounts.models import ApiKey, Membership, Role, Tenant, User

pytestmark = pytest.mark.django_db
KEY = "Qm3xT8aP." + "k" * 32


@pytest.fixture(autouse=True)
def wanted(settings: Settings) -> Settings:
    settings.HMI_INIT_TENANT, settings.HMI_INIT_USER = "acme", "jo"
    settings.HMI_INIT_PASSWORD, settings.HMI_INIT_KEY = "a long secret", KEY
    return settings


def can_sign_in(password: str) -> bool:
    return Client().post("/login/", {"login": "jo", "password": password}).status_code == 302


def test_they_are_created_once_and_the_key_works() -> None:
    assert first_account_ensure() == FirstAccount(tenant="acme", user="jo", api_key=True)
    assert first_account_ensure() == FirstAccount()
    assert can_sign_in("a long secret")
    assert User.objects.get(username="jo").is_superuser
    assert Membership.unscoped.get().role == Role.OWNER
    key = api_key_from(KEY)
    assert key is not None
    assert key.tenant.slug == "acme"
    assert set(key.scopes) == {"infer", "manage"}


def test_only_a_hash_of_the_key_is_stored() -> None:
    first_account_ensure()
    assert KEY.partition(".")[2] not in str(ApiKey.unscoped.values().get())


def test_what_is_there_stays_as_it_is(wanted: Settings) -> None:
    first_account_ensure()
    ApiKey.unscoped.update(revoked=True)
    wanted.HMI_INIT_PASSWORD = "another secret"
    assert first_account_ensure() == FirstAccount()
    assert can_sign_in("a long secret")
    assert api_key_from(KEY) is None


def test_a_user_of_this_name_in_another_case_is_that_user(wanted: Settings) -> None:
    first_account_ensure()
    wanted.HMI_INIT_USER = "Jo"
    assert first_account_ensure() == FirstAccount()
    assert User.objects.get().username == "jo"


def test_a_password_that_is_not_set_is_generated_and_told_once(wanted: Settings) -> None:
    wanted.HMI_INIT_PASSWORD = ""
    password = first_account_ensure().password
    assert can_sign_in(password)
    assert first_account_ensure().password == ""


def test_nothing_is_created_by_default(wanted: Settings) -> None:
    wanted.HMI_INIT_TENANT = wanted.HMI_INIT_USER = wanted.HMI_INIT_PASSWORD = wanted.HMI_INIT_KEY = ""
    assert first_account_ensure() == FirstAccount()
    assert not User.objects.exists()


def test_another_key_of_this_prefix_stops_the_start_and_nothing_is_created(wanted: Settings) -> None:
    first_account_ensure()
    wanted.HMI_INIT_TENANT, wanted.HMI_INIT_KEY = "globex", "Qm3xT8aP." + "z" * 32
    with pytest.raises(ChildError, match=r"HMI_INIT_KEY: There is another key with the prefix Qm3xT8aP\."):
        first_account_ensure()
    assert not Tenant.objects.filter(slug="globex").exists()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("HMI_INIT_TENANT", "Acme Inc", "HMI_INIT_TENANT is 'Acme Inc'. A slug is 1 to 50"),
        ("HMI_INIT_USER", "jo smith", "HMI_INIT_USER is 'jo smith'. A user name is"),
        ("HMI_INIT_PASSWORD", "short", "HMI_INIT_PASSWORD has fewer than 8 characters."),
        ("HMI_INIT_KEY", "secret", "HMI_INIT_KEY cannot be used. A key is 8 letters or digits, a dot"),
        ("HMI_INIT_TENANT", "", "HMI_INIT_KEY is set, but HMI_INIT_TENANT is not."),
        ("HMI_INIT_USER", "", "HMI_INIT_PASSWORD is set, but HMI_INIT_USER is not."),
    ],
)
def test_a_wrong_value_is_an_error_before_anything_starts(
    wanted: Settings, name: str, value: str, reason: str
) -> None:
    setattr(django_settings, name, value)
    errors = [error.msg for error in run_checks() if "HMI_INIT" in error.msg]
    assert len(errors) == 1
    assert re.match(re.escape(reason), errors[0])
    assert "secret" not in errors[0].removeprefix("HMI_INIT_KEY")
