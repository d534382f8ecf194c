"""Usage added up by day and key. PostgreSQL itself keeps the sums, whoever changes the rows."""

import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models

_FILL = """
    INSERT INTO tenants_usagesum AS kept (tenant_id, day, key_prefix, requests, inputs, tokens, failed, busy_ms)
    SELECT tenant_id, day, key_prefix, sum(requests), sum(inputs), sum(tokens), sum(failed), sum(busy_ms)
    FROM ({changed}) changed (tenant_id, day, key_prefix, requests, inputs, tokens, failed, busy_ms)
    GROUP BY tenant_id, day, key_prefix
    ORDER BY tenant_id, day, key_prefix
"""
_ADD = f"""{_FILL}    ON CONFLICT (tenant_id, day, key_prefix) DO UPDATE SET
        requests = kept.requests + EXCLUDED.requests,
        inputs = kept.inputs + EXCLUDED.inputs,
        tokens = kept.tokens + EXCLUDED.tokens,
        failed = kept.failed + EXCLUDED.failed,
        busy_ms = kept.busy_ms + EXCLUDED.busy_ms;
"""
_ROWS = "SELECT tenant_id, day, key_prefix, requests, inputs, tokens, failed, busy_ms FROM {table}"
_LESS = "SELECT tenant_id, day, key_prefix, -requests, -inputs, -tokens, -failed, -busy_ms FROM {table}"
# A key of which nothing is left is not to be known any more.
_CLEAN = """
    DELETE FROM tenants_usagesum empty USING old_rows
    WHERE (empty.tenant_id, empty.day, empty.key_prefix)
            = (old_rows.tenant_id, old_rows.day, old_rows.key_prefix)
        AND (empty.requests, empty.inputs, empty.tokens, empty.failed) = (0, 0, 0, 0);
"""
# One at a time, to the end of its transaction: a statement that inserts some rows and updates others adds up
# twice, and two of them would wait for each other's sums. By then each has all the rows of usage that it wants.
_TRIGGER = """
CREATE FUNCTION tenants_usageday_sum_{event}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4738378);
    {body}
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_usageday_sum_{event} AFTER {event} ON tenants_usageday
    REFERENCING {tables} FOR EACH STATEMENT EXECUTE FUNCTION tenants_usageday_sum_{event}();
"""
_NEW, _OLD = "NEW TABLE AS new_rows", "OLD TABLE AS old_rows"
_CAME, _WENT = _ROWS.format(table="new_rows"), _LESS.format(table="old_rows")
_DIFFERENCE = f"{_CAME} UNION ALL {_WENT}"

FORWARDS = "".join(
    (
        _TRIGGER.format(event="insert", tables=_NEW, body=_ADD.format(changed=_CAME)),
        _TRIGGER.format(event="update", tables=f"{_OLD} {_NEW}", body=_ADD.format(changed=_DIFFERENCE)),
        _TRIGGER.format(event="delete", tables=_OLD, body=_ADD.format(changed=_WENT) + _CLEAN),
        _FILL.format(changed=_ROWS.format(table="tenants_usageday")),  # what there is already
    )
)
BACKWARDS = "".join(
    f"DROP TRIGGER tenants_usageday_sum_{event} ON tenants_usageday; DROP FUNCTION tenants_usageday_sum_{event}();"
    for event in ("insert", "update", "delete")
)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0011_webhooks")]

    operations = [
        migrations.CreateModel(
            name="UsageSum",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "key_prefix",
                    models.CharField(blank=True, db_default="", default="", max_length=8, verbose_name="key"),
                ),
                ("day", models.DateField()),
                ("requests", models.BigIntegerField(default=0)),
                ("inputs", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("failed", models.BigIntegerField(default=0)),
                ("busy_ms", models.FloatField(default=0.0, verbose_name="machine time")),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="usage_sums",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("-day", "key_prefix"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "day", "key_prefix"), name="one_usage_sum_per_tenant_day_and_key"
                    )
                ],
            },
            managers=[("unscoped", django.db.models.manager.Manager())],
        ),
        migrations.RunSQL(FORWARDS, BACKWARDS),
    ]
