"""User names that differ in letters only are one name."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.test import Client

from tenants.accounts.models import User
from tests.integration.accounts.signing_in import enter, signed_in
from tests.integration.world import World


def test_nobody_gets_a_name_that_somebody_has_in_other_letters(client: Client, world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user("OWNER")
    client.force_login(world.staff)
    form = {"username": "Owner", "password1": "quince and medlar", "password2": "quince and medlar"}
    page = client.post("/admin/tenants/user/add/", form | {"usable_password": "true"}).content.decode()
    assert "already exists" in page
    assert User.objects.filter(username__iexact="owner").count() == 1


def test_a_name_is_typed_in_whatever_letters(client: Client, world: World) -> None:
    enter(client, "OwNeR")
    assert signed_in(client)


def test_those_who_shared_a_name_before_are_told_apart_the_oldest_keeps_it(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX user_names_differ_in_more_than_case")
    User.objects.create_user("Owner_2")
    User.objects.create_user("OWNER")
    import_module("tenants.migrations.0008_rate_limits_and_user_names").part_namesakes(apps, None)
    names = (
        User.objects.filter(username__istartswith="owner").order_by("pk").values_list("username", flat=True)
    )
    assert list(names) == ["owner", "Owner_2", "OWNER_3"]
