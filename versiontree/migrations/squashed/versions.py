"""Versions, and the aliases that mean them. What else holds of them is in `triggers`."""

from django.conf import settings
from django.db import migrations, models

MODELS = [
    migrations.CreateModel(
        name="Version",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            (
                "kind",
                models.CharField(
                    choices=[("root", "Root"), ("domain", "Domain"), ("hplm", "hPLM")], max_length=8
                ),
            ),
            ("number", models.PositiveIntegerField()),
            (
                "state",
                models.CharField(
                    choices=[
                        ("building", "Building"),
                        ("ready", "Ready"),
                        ("failed", "Failed"),
                        ("retired", "Retired"),
                    ],
                    default="building",
                    max_length=8,
                ),
            ),
            ("digest", models.CharField(blank=True, default="", max_length=64)),
            ("config", models.JSONField(blank=True, default=dict)),
            ("metrics", models.JSONField(blank=True, default=dict)),
            ("created_at", models.DateTimeField(auto_now_add=True)),
            ("ready_at", models.DateTimeField(blank=True, null=True)),
            (
                "corpus",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="versions",
                    to="tenants.corpus",
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
                "dataset",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="versions",
                    to="tenants.dataset",
                ),
            ),
            (
                "domain",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="versions",
                    to="versiontree.domain",
                ),
            ),
            (
                "hplm",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="versions",
                    to="versiontree.hplm",
                    verbose_name="hPLM",
                ),
            ),
            (
                "parent",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="children",
                    to="versiontree.version",
                ),
            ),
            (
                "root",
                models.ForeignKey(on_delete=models.PROTECT, related_name="versions", to="versiontree.root"),
            ),
            (
                "tenant",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="versions",
                    to="tenants.tenant",
                ),
            ),
        ],
        options={
            "ordering": ["id"],
            "indexes": [
                models.Index(fields=["state", "kind"], name="version_state_kind"),
                models.Index(fields=["tenant", "id"], include=("hplm",), name="version_of_tenant"),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("domain__isnull", True), ("hplm__isnull", True), ("kind", "root")),
                        models.Q(("domain__isnull", False), ("hplm__isnull", True), ("kind", "domain")),
                        models.Q(("domain__isnull", True), ("hplm__isnull", False), ("kind", "hplm")),
                        _connector="OR",
                    ),
                    name="version_is_of_one_thing",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        ("parent__isnull", False), models.Q(("kind", "root"), ("number", 1)), _connector="OR"
                    ),
                    name="version_has_a_parent",
                ),
                models.CheckConstraint(
                    condition=models.Q(("number__gte", 1)), name="version_number_starts_at_one"
                ),
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["building", "ready", "failed", "retired"])),
                    name="version_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(
                            ("digest__regex", "^[0-9a-f]{64}$"),
                            ("ready_at__isnull", False),
                            ("state__in", ["ready", "retired"]),
                        ),
                        models.Q(
                            ("digest", ""), ("ready_at__isnull", True), ("state__in", ["building", "failed"])
                        ),
                        _connector="OR",
                    ),
                    name="version_digest_when_ready",
                ),
                models.UniqueConstraint(
                    condition=models.Q(("kind", "root")),
                    fields=("root", "number"),
                    name="version_number_per_root",
                ),
                models.UniqueConstraint(fields=("domain", "number"), name="version_number_per_domain"),
                models.UniqueConstraint(fields=("hplm", "number"), name="version_number_per_hplm"),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Alias",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=63)),
            ("moved_at", models.DateTimeField()),
            (
                "moved_by",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.SET_NULL,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "hplm",
                models.ForeignKey(
                    on_delete=models.CASCADE,
                    related_name="aliases",
                    to="versiontree.hplm",
                    verbose_name="hPLM",
                ),
            ),
            (
                "version",
                models.ForeignKey(on_delete=models.PROTECT, related_name="aliases", to="versiontree.version"),
            ),
        ],
        options={
            "verbose_name_plural": "aliases",
            "ordering": ["name"],
            "constraints": [
                models.UniqueConstraint(fields=("hplm", "name"), name="alias_name_is_unique"),
                models.CheckConstraint(
                    condition=models.Q(("name__regex", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")),
                    name="alias_name_is_a_slug",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="AliasMove",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("name", models.CharField(max_length=63)),
            ("reason", models.CharField(blank=True, default="", max_length=200)),
            ("moved_at", models.DateTimeField()),
            (
                "moved_by",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.SET_NULL,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "hplm",
                models.ForeignKey(
                    on_delete=models.CASCADE,
                    related_name="alias_moves",
                    to="versiontree.hplm",
                    verbose_name="hPLM",
                ),
            ),
            (
                "from_version",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to="versiontree.version",
                ),
            ),
            (
                "to_version",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to="versiontree.version",
                ),
            ),
        ],
        options={
            "ordering": ["-id"],
            "indexes": [models.Index(fields=["hplm", "name"], name="alias_move_hplm_name")],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
