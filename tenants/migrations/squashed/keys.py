"""API keys."""

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import migrations, models

MODELS = [
    migrations.CreateModel(
        name="ApiKey",
        fields=[
            (
                "id",
                models.CharField(
                    editable=False, max_length=150, primary_key=True, serialize=False, unique=True
                ),
            ),
            ("prefix", models.CharField(editable=False, max_length=8, unique=True)),
            ("hashed_key", models.CharField(editable=False, max_length=150)),
            ("created", models.DateTimeField(auto_now_add=True, db_index=True)),
            (
                "name",
                models.CharField(
                    default=None,
                    help_text="A free-form name for the API key. Need not be unique. 50 characters max.",
                    max_length=50,
                ),
            ),
            (
                "revoked",
                models.BooleanField(
                    blank=True,
                    default=False,
                    help_text="If the API key is revoked, clients cannot use it anymore. (This cannot be undone.)",
                ),
            ),
            (
                "expiry_date",
                models.DateTimeField(
                    blank=True,
                    help_text="Once API key expires, clients cannot use it anymore.",
                    null=True,
                    verbose_name="Expires",
                ),
            ),
            ("scopes", models.JSONField(help_text='A list of "infer" and "manage".')),
            ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
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
                models.ForeignKey(on_delete=models.PROTECT, related_name="api_keys", to="tenants.tenant"),
            ),
            (
                "replaces",
                models.OneToOneField(
                    blank=True,
                    editable=False,
                    help_text="The key that this one was made from, with its scopes, to follow it.",
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="replaced_by",
                    to="tenants.apikey",
                ),
            ),
            ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
            (
                "requests_per_minute",
                models.PositiveIntegerField(
                    blank=True,
                    help_text="Requests with this key, of any kind, in a minute. Empty: only the tenant's limits hold.",
                    null=True,
                    validators=[MinValueValidator(1)],
                ),
            ),
            (
                "tokens_per_minute",
                models.PositiveIntegerField(
                    blank=True,
                    help_text="Tokens of infer requests with this key in a minute. Empty: only the tenant's limit holds.",
                    null=True,
                    validators=[MinValueValidator(1)],
                ),
            ),
        ],
        options={
            "verbose_name": "API key",
            "verbose_name_plural": "API keys",
            "ordering": ("-created",),
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("id", models.F("prefix"))), name="api_key_is_named_by_its_prefix"
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        ("scopes__contains", []),
                        ("scopes__contained_by", ["infer", "manage"]),
                        models.Q(("scopes", []), _negated=True),
                    ),
                    name="api_key_scopes_are_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(("revoked", True), ("revoked_at", None), _connector="OR"),
                    name="api_key_revoked_at_a_time_is_revoked",
                ),
                models.CheckConstraint(
                    condition=models.Q(("requests_per_minute__gt", 0), ("tokens_per_minute__gt", 0)),
                    name="api_key_rates_are_above_0",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    )
]
