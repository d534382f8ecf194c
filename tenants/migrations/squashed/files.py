"""Files, those that come in parts, what a tenant takes out, and answers kept for a while."""

import uuid

from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="File",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            (
                "purpose",
                models.CharField(
                    choices=[
                        ("fine-tune", "Rows for a fine-tuning"),
                        ("batch", "Requests of a batch"),
                        ("batch_output", "Answers of a batch"),
                    ],
                    max_length=20,
                ),
            ),
            ("filename", models.CharField(max_length=150)),
            ("sha256", models.CharField(db_index=True, max_length=64)),
            ("size_bytes", models.PositiveBigIntegerField()),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("expires_at", models.DateTimeField(blank=True, db_index=True, null=True)),
            (
                "created_by",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "tenant",
                models.ForeignKey(on_delete=models.PROTECT, related_name="files", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("-created_at", "-id"),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("purpose__in", ["fine-tune", "batch", "batch_output"])),
                    name="file_purpose_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(("sha256__regex", "^[0-9a-f]{64}$")), name="file_sha256_is_hex"
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="PartedFile",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            (
                "purpose",
                models.CharField(
                    choices=[
                        ("fine-tune", "Rows for a fine-tuning"),
                        ("batch", "Requests of a batch"),
                        ("batch_output", "Answers of a batch"),
                    ],
                    max_length=20,
                ),
            ),
            ("filename", models.CharField(max_length=150)),
            ("size_bytes", models.PositiveBigIntegerField()),
            ("life_s", models.PositiveIntegerField(null=True)),
            (
                "state",
                models.CharField(
                    choices=[("pending", "Pending"), ("completed", "Completed"), ("cancelled", "Cancelled")],
                    default="pending",
                    max_length=9,
                ),
            ),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("expires_at", models.DateTimeField(db_index=True)),
            (
                "api_key",
                models.ForeignKey(
                    null=True, on_delete=models.SET_NULL, related_name="+", to="tenants.apikey"
                ),
            ),
            (
                "created_by",
                models.ForeignKey(
                    null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                ),
            ),
            (
                "file",
                models.ForeignKey(null=True, on_delete=models.SET_NULL, related_name="+", to="tenants.file"),
            ),
            ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
        ],
        options={
            "ordering": ("-created_at", "-id"),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["pending", "completed", "cancelled"])),
                    name="parted_file_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(("size_bytes__gt", 0)), name="parted_file_is_not_empty"
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Takeout",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
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
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("nudged_at", models.DateTimeField(null=True)),
            ("finished_at", models.DateTimeField(null=True)),
            ("expires_at", models.DateTimeField(null=True)),
            (
                "created_by",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "tenant",
                models.ForeignKey(on_delete=models.CASCADE, related_name="takeouts", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("-created_at", "id"),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["waiting", "running", "ready", "failed"])),
                    name="takeout_state_is_known",
                ),
                models.UniqueConstraint(
                    condition=models.Q(("state__in", ("waiting", "running"))),
                    fields=("tenant",),
                    name="one_takeout_at_a_time_per_tenant",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="KeptAnswer",
        fields=[
            ("place", models.CharField(editable=False, max_length=64, primary_key=True, serialize=False)),
            ("body", models.CharField(max_length=64)),
            ("status", models.PositiveSmallIntegerField()),
            ("answer", models.TextField()),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            (
                "tenant",
                models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("-created_at", "place"),
            "indexes": [
                models.Index(fields=["tenant", "-created_at"], name="kept_answers_of_tenant"),
                models.Index(fields=["created_at"], name="kept_answers_by_age"),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
