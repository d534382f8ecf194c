"""Fine-tunings and batches, as they were ordered."""

import uuid

from django.conf import settings
from django.db import migrations, models
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="FineTuning",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            ("model", models.CharField(max_length=200)),
            ("name", models.CharField(max_length=63)),
            ("training_file", models.UUIDField()),
            ("validation_file", models.UUIDField(null=True)),
            ("options", models.JSONField(default=dict)),
            ("settings", models.JSONField(default=dict)),
            ("asked", models.JSONField(default=dict)),
            (
                "state",
                models.CharField(
                    choices=[
                        ("validating", "Validating files"),
                        ("begun", "Begun"),
                        ("failed", "Failed"),
                        ("cancelled", "Cancelled"),
                    ],
                    default="validating",
                    max_length=10,
                ),
            ),
            ("attempts", models.PositiveIntegerField(default=0)),
            ("error", models.JSONField(null=True)),
            ("created_at", models.DateTimeField(auto_now_add=True)),
            ("nudged_at", models.DateTimeField(null=True)),
            ("finished_at", models.DateTimeField(null=True)),
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
                "hplm",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="+", to="versiontree.hplm"
                ),
            ),
            (
                "parent",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="+", to="versiontree.version"
                ),
            ),
            ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            (
                "version",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="fine_tunings", to="versiontree.version"
                ),
            ),
        ],
        options={
            "ordering": ["-created_at", "-id"],
            "indexes": [
                models.Index(fields=["tenant", "-created_at"], name="fine_tuning_tenant_newest"),
                models.Index(
                    condition=models.Q(("state", "validating")),
                    fields=["nudged_at"],
                    name="fine_tuning_validating",
                ),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["validating", "begun", "failed", "cancelled"])),
                    name="fine_tuning_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("state", "begun"), ("version__isnull", False)),
                        models.Q(models.Q(("state", "begun"), _negated=True), ("version", None)),
                        _connector="OR",
                    ),
                    name="fine_tuning_begun_with_its_version",
                ),
                models.CheckConstraint(
                    condition=models.Q(("parent", None), ("hplm", None), _connector="XOR"),
                    name="fine_tuning_of_a_parent_or_an_hplm",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Batch",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            ("key_prefix", models.CharField(blank=True, default="", max_length=8)),
            (
                "form",
                models.CharField(
                    choices=[("inputs", "An input a line"), ("requests", "A request a line")],
                    default="inputs",
                    max_length=8,
                ),
            ),
            ("endpoint", models.CharField(blank=True, default="", max_length=50)),
            ("model", models.CharField(blank=True, default="", max_length=256)),
            ("hplm_name", models.CharField(blank=True, default="", max_length=100)),
            ("version_number", models.PositiveIntegerField(blank=True, null=True)),
            ("filename", models.CharField(max_length=150)),
            ("metadata", models.JSONField(blank=True, default=dict)),
            (
                "state",
                models.CharField(
                    choices=[
                        ("waiting", "Waiting"),
                        ("running", "Running"),
                        ("completed", "Completed"),
                        ("failed", "Failed"),
                        ("cancelled", "Cancelled"),
                        ("expired", "Expired"),
                    ],
                    default="waiting",
                    max_length=9,
                ),
            ),
            ("attempts", models.PositiveSmallIntegerField(default=0)),
            ("total_lines", models.PositiveIntegerField(blank=True, null=True)),
            ("lines", models.PositiveIntegerField(default=0)),
            ("succeeded", models.PositiveIntegerField(default=0)),
            ("failed", models.PositiveIntegerField(default=0)),
            ("tokens", models.PositiveBigIntegerField(default=0)),
            ("read_lines", models.PositiveIntegerField(default=0)),
            ("read_bytes", models.PositiveBigIntegerField(default=0)),
            ("results_bytes", models.PositiveBigIntegerField(default=0)),
            ("errors_bytes", models.PositiveBigIntegerField(default=0)),
            ("error_code", models.CharField(blank=True, default="", max_length=40)),
            ("error_message", models.TextField(blank=True, default="")),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("nudged_at", models.DateTimeField(blank=True, null=True)),
            ("started_at", models.DateTimeField(blank=True, null=True)),
            ("finished_at", models.DateTimeField(blank=True, null=True)),
            ("expires_at", models.DateTimeField()),
            (
                "created_by",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.SET_NULL,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "errors",
                models.ForeignKey(
                    blank=True, null=True, on_delete=models.SET_NULL, related_name="+", to="tenants.file"
                ),
            ),
            (
                "input",
                models.ForeignKey(
                    blank=True, null=True, on_delete=models.SET_NULL, related_name="+", to="tenants.file"
                ),
            ),
            (
                "results",
                models.ForeignKey(
                    blank=True, null=True, on_delete=models.SET_NULL, related_name="+", to="tenants.file"
                ),
            ),
            (
                "tenant",
                models.ForeignKey(on_delete=models.CASCADE, related_name="batches", to="tenants.tenant"),
            ),
        ],
        options={
            "verbose_name_plural": "batches",
            "ordering": ("-created_at", "-id"),
            "indexes": [
                models.Index(
                    condition=models.Q(("state__in", ("waiting", "running"))),
                    fields=["nudged_at"],
                    name="batches_at_work",
                )
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        ("state__in", ["waiting", "running", "completed", "failed", "cancelled", "expired"])
                    ),
                    name="batch_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(("form__in", ["inputs", "requests"])), name="batch_form_is_known"
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        ("lines", CombinedExpression(models.F("succeeded"), "+", models.F("failed")))
                    ),
                    name="batch_lines_are_answered_once",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
