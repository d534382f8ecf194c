import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.manager
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                (
                    "date_joined",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined"),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
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
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "API key",
                "verbose_name_plural": "API keys",
                "ordering": ("-created",),
                "abstract": False,
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(help_text="Lower-case letters, digits and hyphens.", unique=True)),
                ("name", models.CharField(max_length=200)),
                (
                    "created_at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                ("suspended_at", models.DateTimeField(blank=True, editable=False, null=True)),
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
                ],
            },
        ),
        migrations.CreateModel(
            name="Quota",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("max_domains", models.PositiveIntegerField(db_default=3, default=3)),
                (
                    "max_hplms",
                    models.PositiveIntegerField(db_default=50, default=50, verbose_name="max hPLMs"),
                ),
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
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="quota", to="tenants.tenant"
                    ),
                ),
            ],
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Dataset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                (
                    "task",
                    models.CharField(
                        choices=[("classification", "Text classification"), ("tagging", "Token tagging")],
                        max_length=16,
                    ),
                ),
                ("labels", models.JSONField(default=list, editable=False)),
                ("report", models.JSONField(default=dict, editable=False)),
                (
                    "created_at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="datasets",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("-created_at", "-id"),
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Corpus",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("sha256", models.CharField(editable=False, max_length=64)),
                ("size_bytes", models.PositiveBigIntegerField(editable=False)),
                ("rows", models.PositiveBigIntegerField(editable=False)),
                ("words", models.PositiveBigIntegerField(editable=False)),
                ("report", models.JSONField(default=dict, editable=False)),
                (
                    "created_at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="corpora",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "corpora",
                "ordering": ("-created_at", "-id"),
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("verb", models.CharField(help_text='Such as "dataset.upload".', max_length=64)),
                ("subject", models.CharField(help_text="What it was done to.", max_length=200)),
                ("detail", models.JSONField(blank=True, default=dict)),
                (
                    "at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                (
                    "actor",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "api_key",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.apikey",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="audit_events",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "-id"),
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddField(
            model_name="apikey",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="api_keys", to="tenants.tenant"
            ),
        ),
        migrations.CreateModel(
            name="UsageDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "hplm_name",
                    models.CharField(
                        help_text="A new hPLM that takes the name of a deleted one goes on in its row of that day.",
                        max_length=100,
                        verbose_name="hPLM",
                    ),
                ),
                ("day", models.DateField()),
                ("requests", models.PositiveBigIntegerField(default=0)),
                ("inputs", models.PositiveBigIntegerField(default=0)),
                ("tokens", models.PositiveBigIntegerField(default=0)),
                (
                    "failed",
                    models.PositiveBigIntegerField(default=0, help_text="Requests that ended in an error."),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="usage_days",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("-day", "hplm_name"),
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="DatasetSplit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
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
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="splits",
                        to="tenants.dataset",
                    ),
                ),
            ],
            options={
                "ordering": ("dataset", "id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("dataset", "split"), name="one_file_per_dataset_and_split"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("split__in", ["train", "dev", "test"])),
                        name="dataset_split_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("sha256__regex", "^[0-9a-f]{64}$")), name="split_sha256_is_hex"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("rows__gt", 0), ("size_bytes__gt", 0)), name="split_is_not_empty"
                    ),
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("owner", "Owner"), ("developer", "Developer"), ("viewer", "Viewer")],
                        max_length=16,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        auto_now_add=True, db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ("tenant", "user"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "user"), name="one_membership_per_tenant_and_user"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["owner", "developer", "viewer"])),
                        name="membership_role_is_known",
                    ),
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.UniqueConstraint(
                fields=("tenant", "name"), name="one_dataset_per_tenant_and_name"
            ),
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.CheckConstraint(
                condition=models.Q(("name__regex", "^\\S([^\\r\\n\\t]*\\S)?$")), name="dataset_name_is_plain"
            ),
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.CheckConstraint(
                condition=models.Q(("task__in", ["classification", "tagging"])), name="dataset_task_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.CheckConstraint(
                condition=models.Q(("labels__contains", []), models.Q(("labels", []), _negated=True)),
                name="dataset_has_labels",
            ),
        ),
        migrations.AddConstraint(
            model_name="corpus",
            constraint=models.UniqueConstraint(
                fields=("tenant", "name"), name="one_corpus_per_tenant_and_name", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="corpus",
            constraint=models.CheckConstraint(
                condition=models.Q(("name__regex", "^\\S([^\\r\\n\\t]*\\S)?$")), name="corpus_name_is_plain"
            ),
        ),
        migrations.AddConstraint(
            model_name="corpus",
            constraint=models.CheckConstraint(
                condition=models.Q(("sha256__regex", "^[0-9a-f]{64}$")), name="corpus_sha256_is_hex"
            ),
        ),
        migrations.AddConstraint(
            model_name="corpus",
            constraint=models.CheckConstraint(
                condition=models.Q(("rows__gt", 0), ("size_bytes__gt", 0), ("words__gt", 0)),
                name="corpus_is_not_empty",
            ),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["tenant", "-at"], name="audit_by_tenant_and_time"),
        ),
        migrations.AddConstraint(
            model_name="auditevent",
            constraint=models.CheckConstraint(
                condition=models.Q(("verb", ""), _negated=True), name="audit_event_has_a_verb"
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", models.F("prefix"))), name="api_key_is_named_by_its_prefix"
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("scopes__contains", []),
                    ("scopes__contained_by", ["infer", "manage"]),
                    models.Q(("scopes", []), _negated=True),
                ),
                name="api_key_scopes_are_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="usageday",
            constraint=models.UniqueConstraint(
                fields=("tenant", "day", "hplm_name"), name="one_usage_row_per_tenant_day_and_hplm"
            ),
        ),
        migrations.AddConstraint(
            model_name="usageday",
            constraint=models.CheckConstraint(
                condition=models.Q(("failed__lte", models.F("requests"))), name="usage_failed_within_requests"
            ),
        ),
    ]
