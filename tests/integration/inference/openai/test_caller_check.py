"""Whether the caller of a completion may still have it."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.test import Client
from django.utils import timezone

from inference.openai.generation import caller_check
from tenants.accounts.models import ApiKey, User
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.members import member_add
from tenants.base.errors import HmiError
from tests.integration.versiontree.tree_factory import TenantFixture


def refusal(check: Callable[[], None]) -> str:
    """The code of the error that the check raises."""
    with pytest.raises(HmiError) as raised:
        check()
    return str(raised.value.code)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("unauthenticated", {"expiry_date": timezone.now() - timedelta(hours=1)}),
        ("forbidden", {"scopes": ["manage"]}),
    ],
)
def test_key_that_expired_or_lost_its_scope_is_refused(
    acme: TenantFixture, code: str, change: dict[str, Any]
) -> None:
    key, _ = api_key_create(tenant=acme.tenant, name="key", scopes=["infer", "manage"], created_by=None)
    check = caller_check(cast("Any", SimpleNamespace(auth=key)), acme.tenant)
    check()
    ApiKey.unscoped.filter(pk=key.pk).update(**change)
    assert refusal(check) == code


def test_member_that_was_deactivated_is_refused(acme: TenantFixture) -> None:
    user, browser = User.objects.create_user("leaver"), Client()
    member_add(tenant=acme.tenant, user=user, role="viewer")
    browser.force_login(user)
    check = caller_check(cast("Any", SimpleNamespace(auth=None, session=browser.session)), acme.tenant)
    check()
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert refusal(check) == "unauthenticated"
