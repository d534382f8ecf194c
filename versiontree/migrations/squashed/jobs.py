"""Jobs, what happened to them, and the shards that several workers share."""

import uuid

from django.conf import settings
from django.db import migrations, models

MODELS = [
    migrations.CreateModel(
        name="Job",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            (
                "kind",
                models.CharField(
                    choices=[
                        ("convert", "Convert"),
                        ("further_pretrain", "Further pretrain"),
                        ("build_plot", "Build PLOT"),
                        ("fine_tune", "Fine-tune"),
                        ("evaluate", "Evaluate"),
                        ("compact", "Compact PLOTs"),
                        ("grow", "Grow PLOT"),
                    ],
                    max_length=16,
                ),
            ),
            (
                "state",
                models.CharField(
                    choices=[
                        ("waiting", "Waiting"),
                        ("queued", "Queued"),
                        ("running", "Running"),
                        ("succeeded", "Succeeded"),
                        ("failed", "Failed"),
                        ("cancelled", "Cancelled"),
                    ],
                    default="waiting",
                    max_length=9,
                ),
            ),
            ("params", models.JSONField(blank=True, default=dict)),
            ("priority", models.PositiveSmallIntegerField(default=0, help_text="0 is served first, 9 last.")),
            ("attempt", models.PositiveSmallIntegerField(default=0)),
            ("max_attempts", models.PositiveSmallIntegerField(default=3)),
            ("worker", models.CharField(blank=True, default="", max_length=200)),
            ("lease_until", models.DateTimeField(blank=True, null=True)),
            ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
            ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
            ("stage", models.CharField(blank=True, default="", max_length=100)),
            ("progress", models.FloatField(default=0.0, help_text="Share of the work done, 0 to 1.")),
            ("metrics", models.JSONField(blank=True, default=dict)),
            ("eta_seconds", models.FloatField(blank=True, null=True)),
            ("error_code", models.CharField(blank=True, default="", max_length=40)),
            ("error_message", models.TextField(blank=True, default="")),
            ("traceback", models.TextField(blank=True, default="")),
            ("nudges", models.PositiveIntegerField(default=0)),
            ("nudged_at", models.DateTimeField(blank=True, null=True)),
            ("created_at", models.DateTimeField(auto_now_add=True)),
            ("queued_at", models.DateTimeField(blank=True, null=True)),
            ("started_at", models.DateTimeField(blank=True, null=True)),
            ("finished_at", models.DateTimeField(blank=True, null=True)),
            (
                "after",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="followers",
                    to="versiontree.job",
                ),
            ),
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
                "tenant",
                models.ForeignKey(
                    blank=True, null=True, on_delete=models.PROTECT, related_name="jobs", to="tenants.tenant"
                ),
            ),
            (
                "version",
                models.ForeignKey(on_delete=models.PROTECT, related_name="jobs", to="versiontree.version"),
            ),
        ],
        options={
            "ordering": ["-created_at", "id"],
            "indexes": [
                models.Index(
                    condition=models.Q(("state", "running")), fields=["lease_until"], name="job_running_lease"
                ),
                models.Index(
                    condition=models.Q(("state", "queued")), fields=["nudged_at"], name="job_queued_nudge"
                ),
                models.Index(fields=["tenant", "-created_at"], name="job_tenant_newest"),
                models.Index(
                    condition=models.Q(("state__in", ["waiting", "queued", "running"])),
                    fields=["tenant"],
                    name="job_active_of_tenant",
                ),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        ("state__in", ["waiting", "queued", "running", "succeeded", "failed", "cancelled"])
                    ),
                    name="job_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(
                            ("lease_until__isnull", False),
                            ("state", "running"),
                            models.Q(("worker", ""), _negated=True),
                        ),
                        models.Q(
                            models.Q(("state", "running"), _negated=True), ("lease_until__isnull", True)
                        ),
                        _connector="OR",
                    ),
                    name="job_lease_while_running",
                ),
                models.CheckConstraint(
                    condition=models.Q(("progress__gte", 0.0), ("progress__lte", 1.0)),
                    name="job_progress_is_a_share",
                ),
                models.CheckConstraint(
                    condition=models.Q(("priority__lte", 9)), name="job_priority_is_a_digit"
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("after__isnull", False), ("state", "waiting")),
                        models.Q(("state", "waiting"), _negated=True),
                        _connector="OR",
                    ),
                    name="job_waits_for_another",
                ),
                models.UniqueConstraint(
                    condition=models.Q(("state__in", ["queued", "running"])),
                    fields=("version",),
                    name="job_one_at_work_per_version",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        (
                            "kind__in",
                            [
                                "convert",
                                "further_pretrain",
                                "build_plot",
                                "fine_tune",
                                "evaluate",
                                "compact",
                                "grow",
                            ],
                        )
                    ),
                    name="job_kind_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="JobEvent",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("kind", models.CharField(max_length=40)),
            ("message", models.TextField(blank=True, default="")),
            ("data", models.JSONField(blank=True, default=dict)),
            ("at", models.DateTimeField(auto_now_add=True)),
            ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="events", to="versiontree.job")),
        ],
        options={
            "ordering": ["id"],
            "indexes": [models.Index(fields=["job", "id"], name="job_event_job_id")],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="JobShard",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("stage", models.CharField(max_length=16)),
            ("number", models.PositiveIntegerField()),
            ("piece", models.JSONField()),
            (
                "state",
                models.CharField(
                    choices=[
                        ("waiting", "Waiting"),
                        ("running", "Running"),
                        ("done", "Done"),
                        ("failed", "Failed"),
                    ],
                    default="waiting",
                    max_length=7,
                ),
            ),
            ("worker", models.CharField(blank=True, default="", max_length=200)),
            ("lease_expires_at", models.DateTimeField(blank=True, null=True)),
            ("attempts", models.PositiveSmallIntegerField(default=0)),
            ("result", models.JSONField(blank=True, default=dict)),
            ("error_code", models.CharField(blank=True, default="", max_length=40)),
            ("error_message", models.TextField(blank=True, default="")),
            ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="shards", to="versiontree.job")),
        ],
        options={
            "ordering": ["id"],
            "constraints": [
                models.UniqueConstraint(fields=("job", "stage", "number"), name="shard_is_unique"),
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["waiting", "running", "done", "failed"])),
                    name="shard_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(
                            ("lease_expires_at__isnull", False),
                            ("state", "running"),
                            models.Q(("worker", ""), _negated=True),
                        ),
                        models.Q(
                            models.Q(("state", "running"), _negated=True), ("lease_expires_at__isnull", True)
                        ),
                        _connector="OR",
                    ),
                    name="shard_lease_while_running",
                ),
            ],
        },
    ),
]
