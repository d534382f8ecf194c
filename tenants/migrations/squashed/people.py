"""People: users, what they are in tenants, and who is asked to become it."""

from django.conf import settings
from django.contrib.auth.models import UserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db import migrations, models
from django.db.models.functions import Lower, Now
from django.utils import timezone

MODELS = [
    migrations.CreateModel(
        name="User",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
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
                    validators=[UnicodeUsernameValidator()],
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
            ("date_joined", models.DateTimeField(default=timezone.now, verbose_name="date joined")),
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
            "constraints": [
                models.UniqueConstraint(
                    Lower("username"),
                    name="user_names_differ_in_more_than_case",
                    violation_error_message="There is already a user of this name, perhaps in other letters.",
                )
            ],
        },
        managers=[("objects", UserManager())],
    ),
    migrations.CreateModel(
        name="Membership",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            (
                "role",
                models.CharField(
                    choices=[("owner", "Owner"), ("developer", "Developer"), ("viewer", "Viewer")],
                    max_length=16,
                ),
            ),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            (
                "user",
                models.ForeignKey(
                    on_delete=models.CASCADE, related_name="memberships", to=settings.AUTH_USER_MODEL
                ),
            ),
            (
                "tenant",
                models.ForeignKey(on_delete=models.CASCADE, related_name="memberships", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("tenant", "user"),
            "constraints": [
                models.UniqueConstraint(fields=("tenant", "user"), name="one_membership_per_tenant_and_user"),
                models.CheckConstraint(
                    condition=models.Q(("role__in", ["owner", "developer", "viewer"])),
                    name="membership_role_is_known",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
    migrations.CreateModel(
        name="Invitation",
        fields=[
            (
                "id",
                models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
            ),
            ("email", models.EmailField(help_text="In lower-case letters.", max_length=254)),
            (
                "role",
                models.CharField(
                    choices=[("owner", "Owner"), ("developer", "Developer"), ("viewer", "Viewer")],
                    max_length=16,
                ),
            ),
            ("token_hash", models.CharField(editable=False, max_length=64, unique=True)),
            (
                "state",
                models.CharField(
                    choices=[
                        ("waiting", "Waiting"),
                        ("accepted", "Accepted"),
                        ("withdrawn", "Withdrawn"),
                        ("replaced", "Replaced by a new link"),
                    ],
                    default="waiting",
                    editable=False,
                    max_length=16,
                ),
            ),
            ("created_at", models.DateTimeField(auto_now_add=True, db_default=Now())),
            ("expires_at", models.DateTimeField()),
            ("ended_at", models.DateTimeField(blank=True, editable=False, null=True)),
            (
                "accepted_by",
                models.ForeignKey(
                    blank=True,
                    null=True,
                    on_delete=models.PROTECT,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "invited_by",
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
                models.ForeignKey(on_delete=models.CASCADE, related_name="invitations", to="tenants.tenant"),
            ),
        ],
        options={
            "ordering": ("-created_at", "-pk"),
            "indexes": [
                models.Index(fields=["tenant", "-created_at"], name="invitations_by_tenant_and_time")
            ],
            "constraints": [
                models.UniqueConstraint(
                    condition=models.Q(("state", "waiting")),
                    fields=("tenant", "email"),
                    name="one_waiting_invitation_per_tenant_and_email",
                ),
                models.CheckConstraint(
                    condition=models.Q(("role__in", ["owner", "developer", "viewer"])),
                    name="invitation_role_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["waiting", "accepted", "withdrawn", "replaced"])),
                    name="invitation_state_is_known",
                ),
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("ended_at", None), ("state", "waiting")),
                        models.Q(models.Q(("state", "waiting"), _negated=True), ("ended_at__isnull", False)),
                        _connector="OR",
                    ),
                    name="invitation_has_ended_or_waits",
                ),
            ],
        },
        managers=[("unscoped", models.Manager())],
    ),
]
