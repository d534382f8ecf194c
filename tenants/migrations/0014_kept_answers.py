"""Answers to requests with an idempotency key."""

import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0013_files")]

    operations = [
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                (
                    "place",
                    models.CharField(editable=False, max_length=64, primary_key=True, serialize=False),
                ),
                ("body", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField()),
                ("answer", models.TextField()),
                (
                    "created_at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("-created_at", "place"),
                "indexes": [
                    models.Index(fields=["tenant", "-created_at"], name="kept_answers_of_tenant"),
                    models.Index(fields=["created_at"], name="kept_answers_by_age"),
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
