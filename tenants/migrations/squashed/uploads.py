"""Uploads under way, and the checks of what has come in."""

import uuid

from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="Upload",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            ("filename", models.CharField(max_length=150)),
            ("mark", models.CharField(blank=True, default="", max_length=100)),
            ("size_bytes", models.PositiveBigIntegerField()),
            ("promised_sha256", models.CharField(blank=True, default="", max_length=64)),
            ("sha256", models.CharField(blank=True, default="", max_length=64)),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("completed_at", models.DateTimeField(null=True)),
            ("expires_at", models.DateTimeField(db_index=True)),
            (
                "api_key",
                models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="tenants.apikey"),
            ),
            (
                "created_by",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                ),
            ),
            (
                "tenant",
                models.ForeignKey(on_delete=models.CASCADE, related_name="uploads", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("-created_at", "id"),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("created_by", None), ("api_key", None), _connector="XOR"),
                    name="upload_is_of_a_person_or_a_key",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("completed_at", None), ("sha256", "")),
                        models.Q(("completed_at__isnull", False), ("sha256__regex", "^[0-9a-f]{64}$")),
                        _connector="OR",
                    ),
                    name="upload_is_complete_with_its_sha256",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="UploadCheck",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            ("kind", models.CharField(choices=[("corpus", "Corpus"), ("dataset", "Dataset")], max_length=10)),
            ("name", models.CharField(blank=True, max_length=100)),
            ("stores", models.BooleanField()),
            ("options", models.JSONField(default=dict)),
            ("files", models.JSONField(default=dict)),
            ("size_bytes", models.PositiveBigIntegerField()),
            (
                "state",
                models.CharField(
                    choices=[
                        ("waiting", "Waiting"),
                        ("running", "Checking"),
                        ("passed", "Passed"),
                        ("stored", "Stored"),
                        ("refused", "Refused"),
                    ],
                    default="waiting",
                    max_length=10,
                ),
            ),
            ("attempts", models.PositiveIntegerField(default=0)),
            ("found", models.JSONField(default=dict)),
            ("refusal", models.JSONField(null=True)),
            ("faults", models.JSONField(default=list)),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("nudged_at", models.DateTimeField(null=True)),
            ("finished_at", models.DateTimeField(null=True)),
            (
                "api_key",
                models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="tenants.apikey"),
            ),
            (
                "corpus",
                models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="tenants.corpus"),
            ),
            (
                "created_by",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                ),
            ),
            (
                "dataset",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="+", to="tenants.dataset"
                ),
            ),
            (
                "tenant",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="upload_checks", to="tenants.tenant"
                ),
            ),
            ("kept", models.JSONField(null=True)),
            ("kept_by", models.CharField(blank=True, db_default="", default="", max_length=32)),
            ("kept_bytes", models.PositiveBigIntegerField(db_default=0, default=0)),
        ],
        options={
            "ordering": ("-created_at", "id"),
            "indexes": [
                models.Index(
                    condition=models.Q(("state__in", ("waiting", "running"))),
                    fields=["nudged_at"],
                    name="checks_at_work",
                )
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("created_by", None), ("api_key", None), _connector="XOR"),
                    name="check_is_of_a_person_or_a_key",
                ),
                models.CheckConstraint(
                    condition=models.Q(("kind__in", ["corpus", "dataset"])), name="check_kind_is_known"
                ),
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["waiting", "running", "passed", "stored", "refused"])),
                    name="check_state_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
