"""PostgreSQL keeps each tenant to its own rows, whatever SQL the application's role sends."""

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.backends.postgresql.base import DatabaseWrapper
from pytest_django import Settings

from hmi_site.checks import check_database_role
from hmi_site.server_urls import EMBEDDED_ADMIN
from tenants.accounts.models import Tenant
from tenants.base import row_security
from tenants.base.row_security import (
    PLATFORM_MODELS,
    model_policies,
    policies_apply,
    policies_missing,
    role_bypass,
)
from tenants.base.scope import EMPTY_SCOPE, PLATFORM_SCOPE, TENANT_SCOPE_PREFIX
from tests.e2e.world import World
from tests.integration.tenants.base.conftest import Session
from tests.integration.tenants.base.rows import protected, rows_of

OURS = {"audit", "usage", "accounts", "datasets", "webhooks", "jobs", "tree", "transfer", "batches"}
OF_NO_TENANT = {
    "accounts.User": "people may belong to several tenants; sessions are found before it is known which",
    "tree.Artifact": "named by their content, and shared by whoever has the same",
}
SCOPES_THAT_ARE_NONE = [
    EMPTY_SCOPE,
    "",
    "psql",
    "hmi tenant ",
    "hmi platform!",
]


def ours(model: type[models.Model]) -> bool:
    return model._meta.app_label in OURS and model._meta.managed and not model._meta.proxy


def test_every_table_has_a_wall_or_is_said_to_be_no_tenants() -> None:
    without = {
        model._meta.label for model in apps.get_models() if ours(model) and model_policies(model) is None
    }
    assert without == OF_NO_TENANT.keys(), "Give it a TenantScopedManager, or say here why not."


def test_the_role_of_the_application_is_held_by_the_walls_and_they_are_up(db: None) -> None:
    assert role_bypass() is None
    assert policies_missing() == []
    assert policies_apply() == 0, "what is up is not touched again"


def test_a_wall_that_was_taken_down_is_missed_and_put_up_again(db: None) -> None:
    for harm in (
        "ALTER TABLE datasets_corpus DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE datasets_corpus NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY hmi_own ON datasets_corpus",
        "COMMENT ON POLICY hmi_own ON datasets_corpus IS 'an older one'",
    ):
        with connection.cursor() as cursor:
            cursor.execute(harm)
        assert policies_missing() == ["datasets_corpus"], harm
        assert policies_apply() == 1
        assert policies_missing() == []


def test_the_operator_is_told_of_a_role_that_no_policy_holds_and_of_a_table_without_wall(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HMI_EMBEDDED_POSTGRES = False
    assert check_database_role() == []
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE usage_quota NO FORCE ROW LEVEL SECURITY")
    [told] = check_database_role()
    assert told.id == "hmi.W010"
    assert "usage_quota" in told.msg
    policies_apply()
    as_admin = DatabaseWrapper({**connection.settings_dict, "USER": EMBEDDED_ADMIN}, alias="admin")
    monkeypatch.setattr(row_security, "connection", as_admin)
    told = check_database_role()[0]
    as_admin.close()
    assert told.id == "hmi.W009"
    assert "is a superuser" in told.msg


def test_without_a_scope_there_is_nothing(world: World, session: Session) -> None:
    for scope in SCOPES_THAT_ARE_NONE:
        session.enter(scope)
        for model in protected():
            assert session.rows("SELECT 1 FROM {table}", of=model) == [], (scope, model)


FIND = "SELECT 1 FROM {table} WHERE {key} = %s"
CHANGE = "UPDATE {table} SET {key} = {key} WHERE {key} = %s"
DELETE = "DELETE FROM {table} WHERE {key} = %s"
AS_JSON = "SELECT to_jsonb(row)::text FROM {table} row WHERE {key} = %s"
MAKE = "INSERT INTO {table} SELECT (jsonb_populate_record(NULL::{table}, %s::jsonb)).*"
GIVE = "UPDATE {table} SET tenant_id = %s WHERE {key} = %s"


def test_a_tenant_finds_changes_and_makes_nothing_of_anothers(
    world: World, other: Tenant, session: Session
) -> None:
    for model in protected():
        row = one_of(model, world.tenant)
        session.enter(PLATFORM_SCOPE)
        [(content,)] = session.rows(AS_JSON, row, of=model)
        with session.without_triggers(model):
            for scope in (f"{TENANT_SCOPE_PREFIX}{other.pk}", EMPTY_SCOPE):
                session.enter(scope)
                assert session.rows(FIND, row, of=model) == [], model
                assert session.touched(CHANGE, row, of=model) == 0, model
                assert session.touched(DELETE, row, of=model) == 0, model
                assert session.refuses(MAKE, content, of=model), model
            session.enter(f"{TENANT_SCOPE_PREFIX}{world.tenant.pk}")
            assert session.touched(CHANGE, row, of=model) == 1, model


def test_a_tenant_gives_no_row_away(world: World, other: Tenant, session: Session) -> None:
    for model in protected():
        if "tenant" in {field.name for field in model._meta.concrete_fields}:
            row = one_of(model, world.tenant)
            with session.without_triggers(model):
                session.enter(f"{TENANT_SCOPE_PREFIX}{world.tenant.pk}")
                assert session.refuses(GIVE, other.pk, row, of=model), model


def test_a_tenant_reads_what_the_platform_shares_and_changes_nothing_of_it(
    world: World, other: Tenant, session: Session
) -> None:
    shared = [
        model for model in apps.get_models() if (wall := model_policies(model)) and wall.read is not None
    ]
    assert [model._meta.label for model in shared] == SHARED
    for model in shared:
        path = "" if model._meta.label in PLATFORM_MODELS else scoped(model).tenant_path
        row = model._base_manager.filter(**({path: None} if path else {})).values_list("pk", flat=True)[0]
        with session.without_triggers(model):
            session.enter(f"{TENANT_SCOPE_PREFIX}{other.pk}")
            assert session.rows(FIND, row, of=model), model
            assert session.touched(CHANGE, row, of=model) == 0, model
            assert session.touched(DELETE, row, of=model) == 0, model


SHARED = [
    "datasets.Corpus",
    "jobs.Job",
    "tree.Root",
    "tree.Domain",
    "tree.Version",
    "tree.VersionArtifact",
]
"""Models of which tenants read the platform's rows."""


def one_of(model: type[models.Model], tenant: Tenant) -> Any:
    """The key of a row of the tenant's; `rows.py` is to make one for a new model."""
    found = rows_of(model, tenant).values_list("pk", flat=True).first()
    assert found is not None, f"fill() in rows.py makes no {model._meta.label}"
    return found


def scoped(model: type[models.Model]) -> Any:
    """Its manager that names the path to the tenant."""
    return next(each for each in model._meta.managers if hasattr(each, "tenant_path"))
