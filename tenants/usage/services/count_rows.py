"""Adding counts to rows that are found by their keys: one upsert for every table of counts."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from django.apps import apps
from django.db import connection, models

from tenants.base.scope import platform_scope

# Rows are locked in the order of their keys, so that two processes cannot deadlock. Counts of a deleted
# tenant are dropped. Names of a tenant that is being deleted are left out: the table lock excludes the
# statement that removes them from the rows.
_UPSERT: Final = """
    INSERT INTO {table} AS kept ({keys}, {counts})
    SELECT {grouped}, {sums}
    FROM unnest({arrays}) AS new ({keys}, {counts})
    JOIN {tenants} AS tenant ON tenant.id = new.tenant_id AND tenant.{gone_at} IS NULL
    GROUP BY {positions}
    ORDER BY {positions}
    ON CONFLICT ({keys}) DO UPDATE SET {added}
"""
_NAME: Final = "CASE WHEN tenant.deletion_requested_at IS NULL THEN new.{column} ELSE '' END"


def counts_add(
    model: type[models.Model],
    rows: Collection[Sequence[Any]],
    *,
    keys: Sequence[str],
    counts: Sequence[str],
    names: Collection[str] = (),
) -> None:
    """Add counts to the rows of a model, and create those that are missing, in one statement.

    ``keys`` are the columns of a unique constraint, with ``tenant_id``; each of ``rows`` has values for
    ``keys`` and then for ``counts``. Of a tenant that is being deleted nothing is written; if the model has
    ``names``, which are among the keys, its counts are written with empty names until the deletion ends.
    """
    if not rows:
        return
    columns = (*keys, *counts)
    statement = _UPSERT.format(
        table=model._meta.db_table,
        tenants=apps.get_model("accounts", "Tenant")._meta.db_table,
        keys=", ".join(keys),
        counts=", ".join(counts),
        grouped=", ".join(_NAME.format(column=key) if key in names else f"new.{key}" for key in keys),
        sums=", ".join(f"sum(new.{count})" for count in counts),
        arrays=", ".join(f"%s::{_array_type(model, column)}" for column in columns),
        gone_at="deletion_finished_at" if names else "deletion_requested_at",
        positions=", ".join(str(number) for number in range(1, len(keys) + 1)),
        added=", ".join(f"{count} = kept.{count} + EXCLUDED.{count}" for count in counts),
    )
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(statement, [list(column) for column in zip(*rows, strict=True)])


def _array_type(model: type[models.Model], column: str) -> str:
    """The type of an array of values of a column, such as ``bigint[]``."""
    field = model._meta.get_field(column.removesuffix("_id"))
    type_name = str(field.db_type(connection))
    return f"{type_name.partition('(')[0]}[]"  # a cast to varchar(n) would cut off silently
