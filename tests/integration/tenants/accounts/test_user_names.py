"""User names that differ in letters only are one name."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from tenants.accounts.models import User
from tests.integration.tenants.accounts.signing_in import enter, signed_in
from tests.integration.world import World


def test_nobody_gets_a_name_that_somebody_has_in_other_letters(client: Client, world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user("OWNER")
    client.force_login(world.staff)
    form = {"username": "Owner", "password1": "quince and medlar", "password2": "quince and medlar"}
    page = client.post("/admin/accounts/user/add/", form | {"usable_password": "true"}).content.decode()
    assert "already exists" in page
    assert User.objects.filter(username__iexact="owner").count() == 1


def test_a_name_is_typed_in_whatever_letters(client: Client, world: World) -> None:
    enter(client, "OwNeR")
    assert signed_in(client)
