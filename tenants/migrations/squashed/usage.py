"""Usage, and its sums, which PostgreSQL itself keeps: see `triggers`."""

from django.db import migrations, models

MODELS = [
    migrations.CreateModel(
        name="UsageDay",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            (
                "hplm_name",
                models.CharField(
                    help_text="A new hPLM that takes the name of a deleted one goes on in its row of that day.",
                    max_length=100,
                    verbose_name="hPLM",
                ),
            ),
            ("day", models.DateField()),
            ("requests", models.PositiveBigIntegerField(default=0)),
            ("inputs", models.PositiveBigIntegerField(default=0)),
            ("tokens", models.PositiveBigIntegerField(default=0)),
            (
                "failed",
                models.PositiveBigIntegerField(default=0, help_text="Requests that ended in an error."),
            ),
            (
                "tenant",
                models.ForeignKey(on_delete=models.PROTECT, related_name="usage_days", to="tenants.tenant"),
            ),
            (
                "busy_ms",
                models.FloatField(
                    db_default=0.0,
                    default=0.0,
                    help_text="Milliseconds for which inference workers were busy with it.",
                    verbose_name="machine time",
                ),
            ),
            (
                "key_prefix",
                models.CharField(
                    blank=True,
                    db_default="",
                    default="",
                    help_text="The beginning of the API key that asked; empty for the browser.",
                    max_length=8,
                    verbose_name="key",
                ),
            ),
        ],
        options={
            "ordering": ("-day", "hplm_name", "key_prefix"),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("failed__lte", models.F("requests"))),
                    name="usage_failed_within_requests",
                ),
                models.UniqueConstraint(
                    fields=("tenant", "day", "hplm_name", "key_prefix"),
                    name="one_usage_row_per_tenant_day_hplm_and_key",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="UsageSum",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
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
                models.ForeignKey(on_delete=models.PROTECT, related_name="usage_sums", to="tenants.tenant"),
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
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="UsageMonth",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
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
                models.ForeignKey(on_delete=models.PROTECT, related_name="usage_months", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("-month", "hplm_name"),
            "indexes": [
                models.Index(fields=["tenant", "month", "-requests", "hplm_name"], name="usage_month_busiest")
            ],
            "constraints": [
                models.UniqueConstraint(
                    fields=("tenant", "month", "hplm_name"), name="one_usage_month_per_tenant_month_and_hplm"
                )
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
