"""Usage added up by day and key, and by month and model: PostgreSQL itself keeps the sums, whoever changes the rows."""

from typing import NamedTuple

from django.db import migrations


class Sums(NamedTuple):
    """A table of sums: what of a row of usage says which sum it belongs to, and how that is called there."""

    name: str
    table: str
    columns: str
    kept: str
    places: str
    group: str
    empty_places: str
    old_places: str


_BY_DAY = Sums(
    name="sum",
    table="usage_usagesum",
    columns="tenant_id, day, key_prefix",
    kept="tenant_id, day, key_prefix",
    places="tenant_id, day, key_prefix",
    group="tenant_id, day, key_prefix",
    empty_places="empty.tenant_id, empty.day, empty.key_prefix",
    old_places="old_rows.tenant_id, old_rows.day, old_rows.key_prefix",
)
_BY_MONTH = Sums(
    name="month",
    table="usage_usagemonth",
    columns="tenant_id, day, model_name",
    kept="tenant_id, month, model_name",
    places="tenant_id, date_trunc('month', day::timestamp)::date, model_name",
    group="1, 2, 3",
    empty_places="empty.tenant_id, empty.month, empty.model_name",
    old_places="old_rows.tenant_id, date_trunc('month', old_rows.day::timestamp)::date, old_rows.model_name",
)

_CAME = "SELECT {columns}, {figures} FROM new_rows"
_WENT = "SELECT {columns}, {negated} FROM old_rows"
_ADD = """
    INSERT INTO {table} AS kept ({kept}, {figures})
    SELECT {places}, {sums}
    FROM (%s) changed ({columns}, {figures})
    GROUP BY {group}
    ORDER BY {group}
    ON CONFLICT ({kept}) DO UPDATE SET {added};
"""
# A key or a model of which nothing is left is not to be known any more.
_CLEAN = """
    DELETE FROM {table} empty USING old_rows
    WHERE ({empty_places})
            = ({old_places})
        AND ({counts}) = ({zeros});
"""
# One at a time, to the end of its transaction: a statement that inserts some rows and updates others adds up
# twice, and two of them would wait for each other's sums. By then each has all the rows of usage that it wants.
_TRIGGER = """
CREATE FUNCTION usage_usageday_{name}_%(event)s() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4738378);
    %(body)s
    RETURN NULL;
END $$;
CREATE TRIGGER usage_usageday_{name}_%(event)s AFTER %(event)s ON usage_usageday
    REFERENCING %(tables)s FOR EACH STATEMENT EXECUTE FUNCTION usage_usageday_{name}_%(event)s();
"""
_NEW, _OLD = "NEW TABLE AS new_rows", "OLD TABLE AS old_rows"


def _kept(sums: Sums, figures: tuple[str, ...], *, update: str) -> str:
    """The triggers that keep one table of sums of these figures."""
    bodies = {
        "insert": (_NEW, _ADD % _CAME),
        "update": (f"{_OLD} {_NEW}", update),
        "delete": (_OLD, _ADD % _WENT + _CLEAN),
    }
    made = (
        _TRIGGER % {"event": event, "tables": tables, "body": body}
        for event, (tables, body) in bodies.items()
    )
    counts = [name for name in figures if name not in {"generated_tokens", "busy_ms"}]
    return "".join(made).format(
        **sums._asdict(),
        figures=", ".join(figures),
        negated=", ".join(f"-{name}" for name in figures),
        sums=", ".join(f"sum({name})" for name in figures),
        added=", ".join(f"{name} = kept.{name} + EXCLUDED.{name}" for name in figures),
        counts=", ".join(f"empty.{name}" for name in counts),
        zeros=", ".join("0" for _ in counts),
    )


_DIFFERENCE = _ADD % f"{_CAME} UNION ALL {_WENT}"


def triggers(*figures: str) -> str:
    """The statements that create the triggers of both tables, which sum up these columns of usage."""
    return _kept(_BY_DAY, figures, update=_DIFFERENCE) + _kept(
        _BY_MONTH, figures, update=_DIFFERENCE + _CLEAN
    )


FIRST_FIGURES = ("requests", "inputs", "tokens", "generated_tokens", "failed", "busy_ms")
DROP_TRIGGERS = """
DROP FUNCTION
    usage_usageday_sum_insert, usage_usageday_sum_update, usage_usageday_sum_delete,
    usage_usageday_month_insert, usage_usageday_month_update, usage_usageday_month_delete CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]
    operations = [migrations.RunSQL(triggers(*FIRST_FIGURES), DROP_TRIGGERS)]
