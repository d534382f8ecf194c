"""What versions are of: roots, domains and hPLMs."""

from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

MODELS = [
    migrations.CreateModel(
        name="Root",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=63, unique=True)),
            ("source", models.CharField(help_text="A local checkpoint folder or a hub id.", max_length=1024)),
            ("created_at", models.DateTimeField(auto_now_add=True)),
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
            ("license", models.CharField(blank=True, db_default="", default="", max_length=100)),
            (
                "source_url",
                models.CharField(
                    blank=True, db_default="", default="", help_text="Where it was published.", max_length=300
                ),
            ),
        ],
        options={
            "ordering": ["name"],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("name__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                    name="root_name_is_a_slug",
                )
            ],
        },
    ),
    migrations.CreateModel(
        name="Domain",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=63)),
            ("description", models.TextField(blank=True, default="")),
            ("created_at", models.DateTimeField(auto_now_add=True)),
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
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="domains",
                    to="tenants.tenant",
                ),
            ),
            (
                "root",
                models.ForeignKey(on_delete=models.PROTECT, related_name="domains", to="versiontree.root"),
            ),
            (
                "published_at",
                models.DateTimeField(
                    blank=True,
                    default=timezone.now,
                    help_text="Of the platform's: since when tenants see it. Until then only administrators do.",
                    null=True,
                    verbose_name="published",
                ),
            ),
        ],
        options={
            "ordering": ["name"],
            "constraints": [
                models.UniqueConstraint(
                    fields=("root", "tenant", "name"), name="domain_name_is_unique", nulls_distinct=False
                ),
                models.CheckConstraint(
                    condition=models.Q(("name__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                    name="domain_name_is_a_slug",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Hplm",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=63)),
            (
                "task",
                models.CharField(
                    choices=[
                        ("classification", "Text classification"),
                        ("multilabel", "Multi-label classification"),
                        ("regression", "Regression"),
                        ("tagging", "Token tagging"),
                        ("question_answering", "Question answering"),
                    ],
                    max_length=20,
                ),
            ),
            ("created_at", models.DateTimeField(auto_now_add=True)),
            ("deleted_at", models.DateTimeField(blank=True, null=True)),
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
                models.ForeignKey(on_delete=models.PROTECT, related_name="hplms", to="tenants.tenant"),
            ),
            ("license", models.CharField(blank=True, db_default="", default="", max_length=100)),
            (
                "pinned_at",
                models.DateTimeField(
                    blank=True,
                    help_text="Inference workers keep the versions that its aliases mean in memory.",
                    null=True,
                    verbose_name="pinned",
                ),
            ),
            ("description", models.TextField(blank=True, db_default="", default="")),
        ],
        options={
            "verbose_name": "hPLM",
            "verbose_name_plural": "hPLMs",
            "ordering": ["name"],
            "indexes": [
                models.Index(
                    condition=models.Q(("deleted_at__isnull", True)),
                    fields=["tenant", "-created_at"],
                    name="hplm_tenant_newest",
                ),
                models.Index(
                    condition=models.Q(("deleted_at__isnull", False)),
                    fields=["tenant"],
                    name="hplm_deleted_of_tenant",
                ),
            ],
            "constraints": [
                models.UniqueConstraint(
                    condition=models.Q(("deleted_at__isnull", True)),
                    fields=("tenant", "name"),
                    name="hplm_name_is_unique",
                ),
                models.CheckConstraint(
                    condition=models.Q(("name__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                    name="hplm_name_is_a_slug",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        (
                            "task__in",
                            ["classification", "multilabel", "regression", "tagging", "question_answering"],
                        )
                    ),
                    name="hplm_task_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
