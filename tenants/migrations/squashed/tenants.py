"""Tenants and their quotas."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="Tenant",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("slug", models.SlugField(help_text="Lower-case letters, digits and hyphens.", unique=True)),
            ("name", models.CharField(max_length=200)),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("suspended_at", models.DateTimeField(blank=True, editable=False, null=True)),
            (
                "shares_fragment_counts",
                models.BooleanField(
                    db_default=True,
                    default=True,
                    help_text="Count which fragments (runs of a few tokens) the tables lack, so that they can grow by them. A domain that all read takes only those that several tenants missed. No whole text is kept; turning this off deletes the tenant's counts within a few minutes.",
                ),
            ),
            ("stopped_sharing_at", models.DateTimeField(blank=True, editable=False, null=True)),
            (
                "weight",
                models.FloatField(
                    db_default=1.0,
                    default=1.0,
                    help_text="The tenant's share of the inference workers' time while several tenants ask: with 2 it gets twice as much as one with 1. From 0.01 to 100. Workers take it over at once.",
                    validators=[MinValueValidator(0.01), MaxValueValidator(100.0)],
                ),
            ),
            ("leaving_since", models.DateTimeField(blank=True, editable=False, null=True)),
            ("left_at", models.DateTimeField(blank=True, editable=False, null=True)),
        ],
        options={
            "ordering": ("slug",),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("slug__regex", "^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$")),
                    name="tenant_slug_is_plain",
                ),
                models.CheckConstraint(
                    condition=models.Q(("name", ""), _negated=True), name="tenant_has_a_name"
                ),
                models.CheckConstraint(
                    condition=models.Q(("weight__range", (0.01, 100.0))), name="tenant_weight_is_in_range"
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("leaving_since", None), ("left_at", None)),
                        models.Q(("leaving_since__isnull", False), ("suspended_at__isnull", False)),
                        _connector="OR",
                    ),
                    name="tenant_leaves_suspended",
                ),
            ],
        },
    ),
    migrations.CreateModel(
        name="Quota",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("max_domains", models.PositiveIntegerField(db_default=3, default=3)),
            ("max_hplms", models.PositiveIntegerField(db_default=50, default=50, verbose_name="max hPLMs")),
            (
                "max_storage_bytes",
                models.PositiveBigIntegerField(
                    db_default=5000000000,
                    default=5000000000,
                    help_text="Of uploads; a new version also counts what the tenant's versions hold as artifacts.",
                ),
            ),
            ("max_requests_per_day", models.PositiveIntegerField(db_default=1000000, default=1000000)),
            ("max_active_jobs", models.PositiveIntegerField(db_default=10, default=10)),
            (
                "tenant",
                models.OneToOneField(on_delete=models.CASCADE, related_name="quota", to="tenants.tenant"),
            ),
            (
                "max_api_keys",
                models.PositiveIntegerField(
                    db_default=100,
                    default=100,
                    help_text="That are neither revoked nor expired.",
                    verbose_name="max API keys",
                ),
            ),
            (
                "max_invitations_per_day",
                models.PositiveIntegerField(
                    db_default=50,
                    default=50,
                    help_text="Links that are made and sent, those sent again among them.",
                ),
            ),
            (
                "manage_per_minute",
                models.PositiveIntegerField(
                    blank=True,
                    help_text="Requests to the manage API in a minute. Empty: the installation's own limit.",
                    null=True,
                    validators=[MinValueValidator(1)],
                ),
            ),
            (
                "requests_per_minute",
                models.PositiveIntegerField(
                    blank=True,
                    help_text="Infer requests in a minute. Empty: the installation's own limit.",
                    null=True,
                    validators=[MinValueValidator(1)],
                ),
            ),
            (
                "tokens_per_minute",
                models.PositiveIntegerField(
                    blank=True,
                    help_text="Tokens of infer requests in a minute. Empty: the installation's own limit.",
                    null=True,
                    validators=[MinValueValidator(1)],
                ),
            ),
        ],
        options={
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        ("manage_per_minute__gt", 0),
                        ("requests_per_minute__gt", 0),
                        ("tokens_per_minute__gt", 0),
                    ),
                    name="quota_rates_are_above_0",
                )
            ]
        },
        managers=[("unscoped", models.Manager())],
    ),
]
