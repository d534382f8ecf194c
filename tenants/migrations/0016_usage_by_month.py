"""Usage added up by month and hPLM, kept by PostgreSQL as the sums by day and key are."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models

_FILL = """
    INSERT INTO tenants_usagemonth AS kept (tenant_id, month, hplm_name, requests, inputs, tokens, failed, busy_ms)
    SELECT tenant_id, date_trunc('month', day::timestamp)::date, hplm_name,
        sum(requests), sum(inputs), sum(tokens), sum(failed), sum(busy_ms)
    FROM ({changed}) changed (tenant_id, day, hplm_name, requests, inputs, tokens, failed, busy_ms)
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
"""
_ADD = f"""{_FILL}    ON CONFLICT (tenant_id, month, hplm_name) DO UPDATE SET
        requests = kept.requests + EXCLUDED.requests,
        inputs = kept.inputs + EXCLUDED.inputs,
        tokens = kept.tokens + EXCLUDED.tokens,
        failed = kept.failed + EXCLUDED.failed,
        busy_ms = kept.busy_ms + EXCLUDED.busy_ms;
"""
_ROWS = "SELECT tenant_id, day, hplm_name, requests, inputs, tokens, failed, busy_ms FROM {table}"
_LESS = "SELECT tenant_id, day, hplm_name, -requests, -inputs, -tokens, -failed, -busy_ms FROM {table}"
# An hPLM of which nothing is left is not to be known any more.
_CLEAN = """
    DELETE FROM tenants_usagemonth empty USING old_rows
    WHERE (empty.tenant_id, empty.month, empty.hplm_name)
            = (old_rows.tenant_id, date_trunc('month', old_rows.day::timestamp)::date, old_rows.hplm_name)
        AND (empty.requests, empty.inputs, empty.tokens, empty.failed) = (0, 0, 0, 0);
"""
# One at a time, and in the turn of the sums by day: the lock is theirs.
_TRIGGER = """
CREATE FUNCTION tenants_usageday_month_{event}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4738378);
    {body}
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_usageday_month_{event} AFTER {event} ON tenants_usageday
    REFERENCING {tables} FOR EACH STATEMENT EXECUTE FUNCTION tenants_usageday_month_{event}();
"""
_NEW, _OLD = "NEW TABLE AS new_rows", "OLD TABLE AS old_rows"
_CAME, _WENT = _ROWS.format(table="new_rows"), _LESS.format(table="old_rows")
_DIFFERENCE = f"{_CAME} UNION ALL {_WENT}"

FORWARDS = "".join(
    (
        _TRIGGER.format(event="insert", tables=_NEW, body=_ADD.format(changed=_CAME)),
        _TRIGGER.format(
            event="update", tables=f"{_OLD} {_NEW}", body=_ADD.format(changed=_DIFFERENCE) + _CLEAN
        ),
        _TRIGGER.format(event="delete", tables=_OLD, body=_ADD.format(changed=_WENT) + _CLEAN),
        "SELECT set_config('application_name', 'hmi platform', true);",  # the rows of all tenants
        _FILL.format(changed=_ROWS.format(table="tenants_usageday")),  # what there is already
    )
)
BACKWARDS = "".join(
    f"DROP TRIGGER tenants_usageday_month_{event} ON tenants_usageday;"
    f"DROP FUNCTION tenants_usageday_month_{event}();"
    for event in ("insert", "update", "delete")
)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0015_parted_files")]

    operations = [
        migrations.CreateModel(
            name="UsageMonth",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hplm_name", models.CharField(max_length=100, verbose_name="hPLM")),
                ("month", models.DateField()),
                ("requests", models.BigIntegerField(default=0)),
                ("inputs", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("failed", models.BigIntegerField(default=0)),
                ("busy_ms", models.FloatField(default=0.0, verbose_name="machine time")),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="usage_months",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("-month", "hplm_name"),
                "indexes": [
                    models.Index(
                        fields=["tenant", "month", "-requests", "hplm_name"], name="usage_month_busiest"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "month", "hplm_name"),
                        name="one_usage_month_per_tenant_month_and_hplm",
                    )
                ],
            },
            managers=[("unscoped", django.db.models.manager.Manager())],
        ),
        migrations.RunSQL(FORWARDS, BACKWARDS),
    ]
