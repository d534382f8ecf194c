"""The audit log; what keeps it from change is in `triggers`."""

from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="AuditEvent",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("verb", models.CharField(help_text='Such as "dataset.upload".', max_length=64)),
            ("subject", models.CharField(help_text="What it was done to.", max_length=200)),
            ("detail", models.JSONField(blank=True, default=dict)),
            ("at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            (
                "actor",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "api_key",
                models.ForeignKey(
                    blank=True, null=True, on_delete=models.PROTECT, related_name="+", to="tenants.apikey"
                ),
            ),
            (
                "tenant",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="audit_events",
                    to="tenants.tenant",
                ),
            ),
            (
                "address",
                models.GenericIPAddressField(blank=True, help_text="From where it was asked for.", null=True),
            ),
            ("request_id", models.CharField(blank=True, db_default="", default="", max_length=64)),
        ],
        options={
            "ordering": ("-at", "-id"),
            "indexes": [
                models.Index(fields=["tenant", "-at"], name="audit_by_tenant_and_time"),
                models.Index(fields=["tenant", "-id"], name="audit_by_tenant_in_order"),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("verb", ""), _negated=True), name="audit_event_has_a_verb"
                )
            ],
        },
        managers=[("unscoped", models.Manager())],
    )
]
