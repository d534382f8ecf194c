"""What is learnt from: corpora, datasets and their splits."""

from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

MODELS = [
    migrations.CreateModel(
        name="Corpus",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=100)),
            ("sha256", models.CharField(editable=False, max_length=64)),
            ("size_bytes", models.PositiveBigIntegerField(editable=False)),
            ("rows", models.PositiveBigIntegerField(editable=False)),
            ("words", models.PositiveBigIntegerField(editable=False)),
            ("report", models.JSONField(default=dict, editable=False)),
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
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="corpora",
                    to="tenants.tenant",
                ),
            ),
        ],
        options={
            "verbose_name_plural": "corpora",
            "ordering": ("-created_at", "-id"),
            "constraints": [
                models.UniqueConstraint(
                    fields=("tenant", "name"), name="one_corpus_per_tenant_and_name", nulls_distinct=False
                ),
                models.CheckConstraint(
                    condition=models.Q(("name__regex", "^\\S([^\\r\\n\\t]*\\S)?$")),
                    name="corpus_name_is_plain",
                ),
                models.CheckConstraint(
                    condition=models.Q(("sha256__regex", "^[0-9a-f]{64}$")), name="corpus_sha256_is_hex"
                ),
                models.CheckConstraint(
                    condition=models.Q(("rows__gt", 0), ("size_bytes__gt", 0), ("words__gt", 0)),
                    name="corpus_is_not_empty",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Dataset",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=100)),
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
            ("labels", models.JSONField(default=list, editable=False)),
            ("report", models.JSONField(default=dict, editable=False)),
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
                models.ForeignKey(on_delete=models.PROTECT, related_name="datasets", to="tenants.tenant"),
            ),
            ("leaks_allowed", models.BooleanField(db_default=False, default=False, editable=False)),
            ("pairs", models.BooleanField(db_default=False, default=False, editable=False)),
        ],
        options={
            "ordering": ("-created_at", "-id"),
            "constraints": [
                models.UniqueConstraint(fields=("tenant", "name"), name="one_dataset_per_tenant_and_name"),
                models.CheckConstraint(
                    condition=models.Q(("name__regex", "^\\S([^\\r\\n\\t]*\\S)?$")),
                    name="dataset_name_is_plain",
                ),
                models.CheckConstraint(
                    condition=models.Q(("labels__contains", []), models.Q(("labels", []), _negated=True)),
                    name="dataset_has_labels",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        (
                            "task__in",
                            ["classification", "multilabel", "regression", "tagging", "question_answering"],
                        )
                    ),
                    name="dataset_task_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="DatasetSplit",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            (
                "split",
                models.CharField(
                    choices=[("train", "Train"), ("dev", "Dev"), ("test", "Test")], max_length=8
                ),
            ),
            ("sha256", models.CharField(max_length=64)),
            ("size_bytes", models.PositiveBigIntegerField()),
            ("rows", models.PositiveBigIntegerField()),
            (
                "dataset",
                models.ForeignKey(on_delete=models.CASCADE, related_name="splits", to="tenants.dataset"),
            ),
        ],
        options={
            "ordering": ("dataset", "id"),
            "constraints": [
                models.UniqueConstraint(fields=("dataset", "split"), name="one_file_per_dataset_and_split"),
                models.CheckConstraint(
                    condition=models.Q(("split__in", ["train", "dev", "test"])), name="dataset_split_is_known"
                ),
                models.CheckConstraint(
                    condition=models.Q(("sha256__regex", "^[0-9a-f]{64}$")), name="split_sha256_is_hex"
                ),
                models.CheckConstraint(
                    condition=models.Q(("rows__gt", 0), ("size_bytes__gt", 0)), name="split_is_not_empty"
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
