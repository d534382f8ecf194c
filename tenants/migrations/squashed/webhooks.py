"""Webhooks and what was sent to them."""

import uuid

from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="WebhookEndpoint",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            ("url", models.CharField(max_length=2000, verbose_name="address")),
            ("kinds", models.JSONField(help_text="The kinds of events that are sent there.")),
            ("description", models.CharField(blank=True, default="", max_length=200)),
            ("secret", models.TextField(editable=False)),
            ("previous_secret", models.TextField(blank=True, default="", editable=False)),
            ("previous_until", models.DateTimeField(blank=True, editable=False, null=True)),
            ("disabled_at", models.DateTimeField(blank=True, null=True)),
            ("disabled_reason", models.CharField(blank=True, default="", max_length=200)),
            ("failing_since", models.DateTimeField(blank=True, null=True)),
            ("sending_until", models.DateTimeField(blank=True, editable=False, null=True)),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
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
                models.ForeignKey(on_delete=models.CASCADE, related_name="webhooks", to="tenants.tenant"),
            ),
        ],
        options={
            "verbose_name": "webhook",
            "ordering": ("created_at", "id"),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("secret", ""), _negated=True), name="webhook_has_a_secret"
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        ("kinds__contains", []),
                        (
                            "kinds__contained_by",
                            [
                                "job.started",
                                "job.succeeded",
                                "job.failed",
                                "job.cancelled",
                                "alias.moved",
                                "batch.completed",
                                "batch.failed",
                                "batch.cancelled",
                                "batch.expired",
                            ],
                        ),
                        models.Q(("kinds", []), _negated=True),
                    ),
                    name="webhook_kinds_are_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="WebhookDelivery",
        fields=[
            ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
            (
                "event_id",
                models.CharField(help_text="Sent as webhook-id; a replay has the same.", max_length=40),
            ),
            (
                "kind",
                models.CharField(
                    choices=[
                        ("job.started", "A job begins"),
                        ("job.succeeded", "A job succeeds"),
                        ("job.failed", "A job fails"),
                        ("job.cancelled", "A job is cancelled"),
                        ("alias.moved", "An alias moves to another version"),
                        ("batch.completed", "A batch completes"),
                        ("batch.failed", "A batch fails"),
                        ("batch.cancelled", "A batch is cancelled"),
                        ("batch.expired", "A batch expires"),
                        ("webhook.test", "A test"),
                    ],
                    max_length=20,
                ),
            ),
            ("payload", models.JSONField()),
            (
                "state",
                models.CharField(
                    choices=[("waiting", "Waiting"), ("delivered", "Delivered"), ("failed", "Failed")],
                    default="waiting",
                    max_length=9,
                ),
            ),
            ("attempts", models.PositiveSmallIntegerField(default=0)),
            ("tries", models.JSONField(blank=True, default=list)),
            ("next_attempt_at", models.DateTimeField(blank=True, null=True)),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("finished_at", models.DateTimeField(blank=True, null=True)),
            (
                "tenant",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="webhook_deliveries", to="tenants.tenant"
                ),
            ),
            (
                "endpoint",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="deliveries", to="tenants.webhookendpoint"
                ),
            ),
        ],
        options={
            "verbose_name_plural": "webhook deliveries",
            "ordering": ("-created_at", "-id"),
            "indexes": [
                models.Index(fields=["endpoint", "-created_at"], name="delivery_endpoint_newest"),
                models.Index(
                    condition=models.Q(("state", "waiting")),
                    fields=["endpoint", "next_attempt_at"],
                    name="delivery_due",
                ),
                models.Index(fields=["created_at"], name="delivery_by_age"),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["waiting", "delivered", "failed"])),
                    name="delivery_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(
                            ("finished_at", None), ("next_attempt_at__isnull", False), ("state", "waiting")
                        ),
                        models.Q(
                            models.Q(("state", "waiting"), _negated=True),
                            ("finished_at__isnull", False),
                            ("next_attempt_at", None),
                        ),
                        _connector="OR",
                    ),
                    name="delivery_waits_or_has_ended",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        (
                            "kind__in",
                            [
                                "job.started",
                                "job.succeeded",
                                "job.failed",
                                "job.cancelled",
                                "alias.moved",
                                "batch.completed",
                                "batch.failed",
                                "batch.cancelled",
                                "batch.expired",
                                "webhook.test",
                            ],
                        )
                    ),
                    name="delivery_kind_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
