import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0008_rate_limits_and_user_names"),
    ]

    operations = [
        migrations.CreateModel(
            name="Takeout",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("ready", "Ready"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("expected_bytes", models.PositiveBigIntegerField(default=0)),
                ("written_bytes", models.PositiveBigIntegerField(default=0)),
                ("error_message", models.TextField(blank=True, default="")),
                (
                    "created_at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                ("nudged_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("-created_at", "id"),
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.AlterModelOptions(
            name="usageday",
            options={"ordering": ("-day", "hplm_name", "key_prefix")},
        ),
        migrations.RemoveConstraint(
            model_name="usageday",
            name="one_usage_row_per_tenant_day_and_hplm",
        ),
        migrations.AddField(
            model_name="auditevent",
            name="address",
            field=models.GenericIPAddressField(
                blank=True, help_text="From where it was asked for.", null=True
            ),
        ),
        migrations.AddField(
            model_name="auditevent",
            name="request_id",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="tenant",
            name="leaving_since",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="tenant",
            name="left_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="usageday",
            name="busy_ms",
            field=models.FloatField(
                db_default=0.0,
                default=0.0,
                help_text="Milliseconds for which inference workers were busy with it.",
                verbose_name="machine time",
            ),
        ),
        migrations.AddField(
            model_name="usageday",
            name="key_prefix",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The beginning of the API key that asked; empty for the browser.",
                max_length=8,
                verbose_name="key",
            ),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["tenant", "-id"], name="audit_by_tenant_in_order"),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("leaving_since", None), ("left_at", None)),
                    models.Q(("leaving_since__isnull", False), ("suspended_at__isnull", False)),
                    _connector="OR",
                ),
                name="tenant_leaves_suspended",
            ),
        ),
        migrations.AddConstraint(
            model_name="usageday",
            constraint=models.UniqueConstraint(
                fields=("tenant", "day", "hplm_name", "key_prefix"),
                name="one_usage_row_per_tenant_day_hplm_and_key",
            ),
        ),
        migrations.AddField(
            model_name="takeout",
            name="created_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="takeout",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="takeouts", to="tenants.tenant"
            ),
        ),
        migrations.AddConstraint(
            model_name="takeout",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["waiting", "running", "ready", "failed"])),
                name="takeout_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="takeout",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ("waiting", "running"))),
                fields=("tenant",),
                name="one_takeout_at_a_time_per_tenant",
            ),
        ),
    ]
