"""The policies of PostgreSQL that keep each tenant to its rows, made from what the models declare.

A model with a ``TenantScopedManager`` is protected by the path to its tenant that the manager names; nothing
else needs to be said for a new one. They are brought up to date after each ``migrate``, and at each start.
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
from tenants.base.scope import PLATFORM, TENANT

OWN, READ = "hmi_own", "hmi_read"

_PLATFORM: Final = f"(SELECT current_setting('application_name') = '{PLATFORM}')"
_ID: Final = f"'^{TENANT}([0-9]{{1,18}})$'"
_TENANT: Final = f"(SELECT substring(current_setting('application_name') FROM {_ID})::bigint)"  # noqa: S608
# Within a SELECT of its own each is asked once a query, not once a row.

ELSEWHERE: Final = {"accounts.Tenant": "", "jobs.JobShard": "job__tenant"}
"""Models that lead to a tenant, and have no manager that says how; the tenant itself by no step."""
OF_PLATFORM: Final = frozenset({"tree.Root"})
"""Models whose rows are all the platform's, for everybody to read."""

Condition = Callable[[str], str]
"""What is asked of the column that names the tenant."""


@dataclass(frozen=True, slots=True)
class TablePolicies:
    """One table: whose each row is, and what besides one's own may be read, as SQL."""

    table: str
    own: str
    read: str | None

    @property
    def policies(self) -> list[str]:
        """Statements that make them."""
        own = f"{_PLATFORM} OR {self.own}"
        made = [f'CREATE POLICY {OWN} ON "{self.table}" USING ({own}) WITH CHECK ({own})']
        if self.read is not None:
            read = f"{_TENANT} IS NOT NULL AND {self.read}"
            made.append(f'CREATE POLICY {READ} ON "{self.table}" FOR SELECT USING ({read})')
        return made

    @property
    def mark(self) -> str:
        """Differs whenever the policies do; stands in the database as the comment of one."""
        return hashlib.sha256("\n".join(self.policies).encode()).hexdigest()

    def put_up(self, cursor: CursorWrapper) -> None:
        """In the place of one that was there. The table's owner is held by it as well."""
        cursor.execute(f'ALTER TABLE "{self.table}" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY')
        for name in (OWN, READ):
            cursor.execute(f'DROP POLICY IF EXISTS {name} ON "{self.table}"')
        for policy in self.policies:
            cursor.execute(policy)
        cursor.execute(f"COMMENT ON POLICY {OWN} ON \"{self.table}\" IS '{self.mark}'")


def table_policies() -> list[TablePolicies]:
    """Those of all models that are installed."""
    return [wall for model in apps.get_models() if (wall := policies_of(model)) is not None]


def policies_of(model: type[models.Model]) -> TablePolicies | None:
    """The wall of a model's table; none where nothing is declared."""
    table = model._meta.db_table
    if model._meta.label in OF_PLATFORM:
        return TablePolicies(table, "false", "true")
    scoped = next((each for each in model._meta.managers if isinstance(each, TenantScopedManager)), None)
    path = ELSEWHERE.get(model._meta.label) if scoped is None else scoped.tenant_path
    if path is None:
        return None
    by_path = partial(_by_path, model, path.split("__") if path else [], f'"{table}"')
    shared = scoped is not None and scoped.shares_platform_rows
    return TablePolicies(
        table,
        by_path(lambda column: f"{column} = {_TENANT}"),
        by_path(lambda column: f"{column} IS NULL") if shared else None,
    )


def policies_apply(using: str = "default", **_: Any) -> int:
    """Make the database have these walls and no older ones; how many tables had to be changed.

    Tables that are not there yet are left out. Only their owner may do this.
    """
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        due = _lacking(cursor)
        for wall in due:
            wall.put_up(cursor)
        _let_triggers_see_all(cursor)
        return len(due)


def policies_missing() -> list[str]:
    """The tables that should have a wall and have none, or an older one."""
    with connection.cursor() as cursor:
        return [wall.table for wall in _lacking(cursor)]


def role_bypass() -> str | None:
    """Why policies do not hold the role that this process connects as, in words; none where they do."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user")
        superuser, bypasses = cursor.fetchone()
    if superuser:
        return "is a superuser"
    return "has BYPASSRLS" if bypasses else None


def _by_path(model: type[models.Model], path: list[str], alias: str, condition: Condition) -> str:
    """The condition on the tenant to which the path leads from a row of the model."""
    if not path:
        return condition(f'{alias}."id"')
    field: Any = model._meta.get_field(path[0])
    if len(path) == 1:
        return condition(f'{alias}."{field.column}"')
    above, other = field.related_model, f"up{len(path)}"
    leads = _by_path(above, path[1:], other, condition)
    key = f'{other}."{above._meta.pk.column}" = {alias}."{field.column}"'
    return f'EXISTS (SELECT 1 FROM "{above._meta.db_table}" {other} WHERE {key} AND {leads})'  # noqa: S608


def _lacking(cursor: CursorWrapper) -> list[TablePolicies]:
    """By their marks, which are empty where there is no wall, or one that does not hold."""
    cursor.execute(
        """
        SELECT c.relname, CASE WHEN c.relrowsecurity AND c.relforcerowsecurity
                          THEN coalesce(obj_description(p.oid, 'pg_policy'), '') ELSE '' END
        FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid AND p.polname = %s
        WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid)
        """,
        [OWN],
    )
    there = dict(cursor.fetchall())
    return [wall for wall in table_policies() if wall.table in there and there[wall.table] != wall.mark]


def _let_triggers_see_all(cursor: CursorWrapper) -> None:
    """The triggers that keep the tree whole look at rows of the platform, and lock them, for a tenant that
    may only read them. What they find they tell nobody, so each runs in the platform's scope."""
    cursor.execute(
        """
        SELECT DISTINCT p.oid::regprocedure::text
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid
        WHERE NOT t.tgisinternal AND c.relrowsecurity AND pg_table_is_visible(c.oid)
          AND NOT coalesce(p.proconfig, '{}') @> ARRAY[%s]
        """,
        [f"application_name={PLATFORM}"],
    )
    for (function,) in cursor.fetchall():
        cursor.execute(f"ALTER FUNCTION {function} SET application_name = '{PLATFORM}'")
