"""Artifacts, whose they are, and what was measured with them."""

from django.db import migrations, models

MODELS = [
    migrations.CreateModel(
        name="Artifact",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            (
                "kind",
                models.CharField(
                    choices=[
                        ("root", "Root"),
                        ("lower", "Lower layers"),
                        ("plot", "PLOT"),
                        ("hplm", "Adapters and head"),
                        ("answers", "Answers"),
                    ],
                    max_length=8,
                ),
            ),
            ("digest", models.CharField(max_length=64)),
            ("size", models.BigIntegerField(help_text="Bytes.")),
            ("files", models.JSONField(help_text="Relative name to sha256 and size.")),
            ("created_at", models.DateTimeField(auto_now_add=True)),
        ],
        options={
            "ordering": ["id"],
            "constraints": [
                models.UniqueConstraint(fields=("kind", "digest"), name="artifact_is_unique"),
                models.CheckConstraint(
                    condition=models.Q(("digest__regex", "^[0-9a-f]{64}$")), name="artifact_digest_is_sha256"
                ),
                models.CheckConstraint(
                    condition=models.Q(("kind__in", ["root", "lower", "plot", "hplm", "answers"])),
                    name="artifact_kind_is_known",
                ),
            ],
        },
    ),
    migrations.CreateModel(
        name="VersionArtifact",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            (
                "role",
                models.CharField(
                    choices=[
                        ("root", "Root"),
                        ("lower", "Lower layers"),
                        ("plot", "PLOT"),
                        ("hplm", "Adapters and head"),
                        ("answers", "Answers"),
                    ],
                    max_length=8,
                ),
            ),
            (
                "artifact",
                models.ForeignKey(
                    on_delete=models.PROTECT, related_name="version_links", to="versiontree.artifact"
                ),
            ),
            (
                "version",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="artifact_links", to="versiontree.version"
                ),
            ),
            (
                "tenant",
                models.ForeignKey(
                    blank=True,
                    db_index=False,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to="tenants.tenant",
                ),
            ),
        ],
        options={
            "ordering": ["id"],
            "indexes": [
                models.Index(
                    fields=["tenant"], include=("version", "artifact"), name="version_artifact_of_tenant"
                )
            ],
            "constraints": [
                models.UniqueConstraint(fields=("version", "role"), name="version_artifact_role_is_unique"),
                models.CheckConstraint(
                    condition=models.Q(("role__in", ["root", "lower", "plot", "hplm", "answers"])),
                    name="version_artifact_role_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Evaluation",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("test", models.CharField(max_length=64)),
            ("dataset", models.CharField(max_length=100)),
            ("made_at", models.DateTimeField(auto_now=True)),
            (
                "artifact",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="evaluations", to="versiontree.artifact"
                ),
            ),
            ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            (
                "version",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="evaluations", to="versiontree.version"
                ),
            ),
        ],
        options={
            "ordering": ["-made_at", "-id"],
            "constraints": [
                models.UniqueConstraint(fields=("version", "test"), name="evaluation_of_version_once"),
                models.CheckConstraint(
                    condition=models.Q(("test__regex", "^[0-9a-f]{64}$")), name="evaluation_test_is_sha256"
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Coverage",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("trigrams", models.PositiveBigIntegerField(default=0)),
            ("bigrams", models.PositiveBigIntegerField(default=0)),
            ("unigrams", models.PositiveBigIntegerField(default=0)),
            ("fault", models.CharField(blank=True, default="", max_length=300)),
            ("measured_at", models.DateTimeField(auto_now_add=True)),
            (
                "corpus",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="coverages", to="tenants.corpus"
                ),
            ),
            (
                "dataset",
                models.ForeignKey(
                    null=True, on_delete=models.CASCADE, related_name="coverages", to="tenants.dataset"
                ),
            ),
            ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            (
                "version",
                models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="versiontree.version"),
            ),
        ],
        options={
            "ordering": ["id"],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("corpus", None), ("dataset", None), _connector="XOR"),
                    name="coverage_is_of_one_upload",
                ),
                models.UniqueConstraint(fields=("corpus", "version"), name="coverage_of_corpus_once"),
                models.UniqueConstraint(fields=("dataset", "version"), name="coverage_of_dataset_once"),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
