"""PostgreSQL's row-level security policies, generated from the models.

The manager of a model (``TenantScopedManager``) names the path from a row to its tenant; a new model needs
nothing else. The policies are brought up to date after each ``migrate`` and at each start.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.apps import apps
from django.db import connection, connections, models, transaction
from django.db.backends.utils import CursorWrapper

from tenants.base.managers import TenantScopedManager
from tenants.base.scope import PLATFORM_SCOPE, TENANT_SCOPE_PREFIX

OWN_POLICY, READ_POLICY = "hmi_own", "hmi_read"

# Each is a SELECT of its own, so that PostgreSQL evaluates it once a query, not once a row.
_IS_PLATFORM: Final = f"(SELECT current_setting('application_name') = '{PLATFORM_SCOPE}')"
_PATTERN: Final = f"'^{TENANT_SCOPE_PREFIX}([0-9]{{1,18}})$'"
_TENANT_ID: Final = f"(SELECT substring(current_setting('application_name') FROM {_PATTERN})::bigint)"  # noqa: S608

TENANT_PATHS: Final = {"accounts.Tenant": "", "jobs.JobShard": "job__tenant"}
"""The path to the tenant of models without a ``TenantScopedManager``. Empty: the row is the tenant."""
PLATFORM_MODELS: Final = frozenset({"tree.Root"})
"""Models whose rows all belong to the platform, and which every tenant may read."""

Condition = Callable[[str], str]
"""Makes the SQL condition on a column with the tenant's id."""


@dataclass(frozen=True, slots=True)
class TablePolicies:
    """A table's policies as SQL conditions: rows to read and write, and rows only to read."""

    table: str
    own: str
    read: str | None

    @property
    def statements(self) -> list[str]:
        """The SQL that creates the policies."""
        own = f"{_IS_PLATFORM} OR {self.own}"
        made = [f'CREATE POLICY {OWN_POLICY} ON "{self.table}" USING ({own}) WITH CHECK ({own})']
        if self.read is not None:
            read = f"{_TENANT_ID} IS NOT NULL AND {self.read}"
            made.append(f'CREATE POLICY {READ_POLICY} ON "{self.table}" FOR SELECT USING ({read})')
        return made

    @property
    def checksum(self) -> str:
        """Changes whenever the policies do. It is stored as the comment of a policy."""
        return hashlib.sha256("\n".join(self.statements).encode()).hexdigest()

    def apply(self, cursor: CursorWrapper) -> None:
        """Replace the table's policies. They also hold for the table's owner."""
        cursor.execute(f'ALTER TABLE "{self.table}" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY')
        for name in (OWN_POLICY, READ_POLICY):
            cursor.execute(f'DROP POLICY IF EXISTS {name} ON "{self.table}"')
        for statement in self.statements:
            cursor.execute(statement)
        cursor.execute(f"COMMENT ON POLICY {OWN_POLICY} ON \"{self.table}\" IS '{self.checksum}'")


def table_policies() -> list[TablePolicies]:
    """Return the policies of all installed models."""
    return [policies for model in apps.get_models() if (policies := model_policies(model)) is not None]


def model_policies(model: type[models.Model]) -> TablePolicies | None:
    """Return the policies of a model's table, or None if the model belongs to no tenant."""
    table = model._meta.db_table
    if model._meta.proxy:  # the table has the policies of its model
        return None
    if model._meta.label in PLATFORM_MODELS:
        return TablePolicies(table, "false", "true")
    scoped = next((each for each in model._meta.managers if isinstance(each, TenantScopedManager)), None)
    path = TENANT_PATHS.get(model._meta.label) if scoped is None else scoped.tenant_path
    if path is None:
        return None
    condition = partial(_path_condition, model, path.split("__") if path else [], f'"{table}"')
    shared = scoped is not None and scoped.shares_platform_rows
    return TablePolicies(
        table,
        condition(lambda column: f"{column} = {_TENANT_ID}"),
        condition(lambda column: f"{column} IS NULL") if shared else None,
    )


def policies_apply(using: str = "default", **_: Any) -> int:
    """Create missing policies and replace outdated ones. Returns the number of changed tables.

    Tables that do not exist yet are skipped. Only the tables' owner may do this.
    """
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        outdated = _outdated_policies(cursor)
        for policies in outdated:
            policies.apply(cursor)
        _give_triggers_platform_scope(cursor)
        return len(outdated)


def policies_missing() -> list[str]:
    """Return the tables whose policies are missing or outdated."""
    with connection.cursor() as cursor:
        return [policies.table for policies in _outdated_policies(cursor)]


def role_bypass() -> str | None:
    """Return in words why this process's database role bypasses the policies, or None if it does not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user")
        superuser, bypasses = cursor.fetchone()
    if superuser:
        return "is a superuser"
    return "has BYPASSRLS" if bypasses else None


def _path_condition(model: type[models.Model], path: list[str], alias: str, condition: Condition) -> str:
    """Return the condition on the tenant at the end of a path of foreign keys from a row of the model."""
    if not path:
        return condition(f'{alias}."id"')
    field: Any = model._meta.get_field(path[0])
    if len(path) == 1:
        return condition(f'{alias}."{field.column}"')
    parent, parent_alias = field.related_model, f"up{len(path)}"
    rest = _path_condition(parent, path[1:], parent_alias, condition)
    join = f'{parent_alias}."{parent._meta.pk.column}" = {alias}."{field.column}"'
    return f'EXISTS (SELECT 1 FROM "{parent._meta.db_table}" {parent_alias} WHERE {join} AND {rest})'  # noqa: S608


def _outdated_policies(cursor: CursorWrapper) -> list[TablePolicies]:
    """Compare checksums; a table without policies, or with disabled ones, counts as an empty checksum."""
    cursor.execute(
        """
        SELECT c.relname, CASE WHEN c.relrowsecurity AND c.relforcerowsecurity
                          THEN coalesce(obj_description(p.oid, 'pg_policy'), '') ELSE '' END
        FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid AND p.polname = %s
        WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid)
        """,
        [OWN_POLICY],
    )
    checksums = dict(cursor.fetchall())
    return [each for each in table_policies() if checksums.get(each.table, each.checksum) != each.checksum]


def _give_triggers_platform_scope(cursor: CursorWrapper) -> None:
    """Run triggers on protected tables in the platform's scope.

    The triggers that keep the tree consistent read and lock rows of the platform that a tenant may only read.
    """
    cursor.execute(
        """
        SELECT DISTINCT p.oid::regprocedure::text
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid
        WHERE NOT t.tgisinternal AND c.relrowsecurity AND pg_table_is_visible(c.oid)
          AND NOT coalesce(p.proconfig, '{}') @> ARRAY[%s]
        """,
        [f"application_name={PLATFORM_SCOPE}"],
    )
    for (function,) in cursor.fetchall():
        cursor.execute(f"ALTER FUNCTION {function} SET application_name = '{PLATFORM_SCOPE}'")
