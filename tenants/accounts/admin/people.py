"""Admin of users, groups, tenants, memberships and quotas."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants.accounts.admin.quota_form import QuotaForm
from tenants.accounts.admin.tenant_form import TenantAddForm, TenantForm
from tenants.accounts.models import Membership, Role, Tenant, User
from tenants.accounts.services.invitations import EmailStatus, invitation_create, invitation_send_email
from tenants.accounts.services.members import member_add, member_remove, member_set_role
from tenants.accounts.services.tenant_deletion import owned_models, owned_rows, tenant_delete
from tenants.accounts.services.tenants import (
    quota_change,
    tenant_create,
    tenant_rename,
    tenant_resume,
    tenant_set_answer_checks,
    tenant_set_weight,
    tenant_suspend,
)
from tenants.base.admin.base import (
    ModelAdmin,
    ModelForm,
    PageActionsAdmin,
    ReadOnlyInline,
    StackedInline,
    admin_link,
    badge,
    file_size_column,
    shown_once,
    staff_user,
)
from tenants.base.admin.confirm import require_typed_name
from tenants.base.admin.constraint_errors import ConstraintErrors
from tenants.base.errors import HmiError
from tenants.usage.models import Quota

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Groups of staff."""


class UserForm(ConstraintErrors, UserChangeForm):  # type: ignore[misc] # unfold is not typed
    """A user, with the errors of constraints at their fields."""


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """Users. Deactivate users rather than delete them: audit events refer to them."""

    form = UserForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "last_login", "date_joined")
    autocomplete_fields = ("groups",)
    filter_horizontal = ("user_permissions",)
    list_filter = ("is_active", "is_staff", "is_superuser")


class MembershipInline(ReadOnlyInline):
    """The members of a tenant, read-only. Memberships have pages of their own."""

    model = Membership
    fields = ("member", "role", "created_at")

    @admin.display(description="Member")
    def member(self, membership: Membership) -> SafeString:
        """Return a link to the membership."""
        return admin_link(membership, str(membership.user))


class QuotaInline(StackedInline):
    """The tenant's quota."""

    model = Quota
    form = QuotaForm
    can_delete = False
    hide_title = True


def count_owned_rows(tenant: Tenant) -> list[str]:
    """Return the number of rows of each model that the deletion of a tenant's data deletes."""
    counted = [(model, owned_rows(model, tenant).count()) for model in reversed(owned_models())]
    return [
        f"{count:,} {model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural}"
        for model, count in counted
        if count
    ]


STATE_COLOURS = {"active": "success", "suspended": "warning", "being deleted": "danger", "deleted": ""}


@admin.register(Tenant)
class TenantAdmin(PageActionsAdmin):
    """Tenants. All requests of a suspended tenant get 403."""

    list_display = (
        "slug",
        "name",
        "status",
        "member_count",
        "priority",
        "created_at",
    )
    list_filter = (
        ("suspended_at", admin.EmptyFieldListFilter),
        ("deletion_requested_at", admin.EmptyFieldListFilter),
        "created_at",
    )
    ordering = ("slug",)
    search_fields = ("slug", "name")
    actions: tuple[str, ...] = ("suspend", "resume", "delete_data")
    page_actions = actions
    destructive_actions = ("delete_data",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tenants: QuerySet[Any] = super().get_queryset(request).annotate(member_count=Count("memberships"))
        return tenants

    @admin.display(description="Members", ordering="member_count")
    def member_count(self, tenant: Any) -> str:
        """Return the number of members."""
        return f"{tenant.member_count:,}"

    @display(description="State", ordering="suspended_at", label=STATE_COLOURS)  # type: ignore[untyped-decorator]
    def status(self, tenant: Tenant) -> tuple[str, str]:
        """Return the state, which selects the colour, and its text."""
        if tenant.deletion_finished_at is not None:
            return "deleted", f"Deleted on {tenant.deletion_finished_at:%Y-%m-%d}"
        if tenant.deletion_requested_at is not None:
            return "being deleted", "Being deleted"
        if tenant.suspended_at is not None:
            return "suspended", f"Suspended on {tenant.suspended_at:%Y-%m-%d}"
        return "active", "Active"

    @admin.display(description="Priority", ordering="weight")
    def priority(self, tenant: Tenant) -> str:
        """Return the tenant's share of the workers under load."""
        return f"{tenant.weight:g}"

    @admin.display(description="State")
    def state(self, tenant: Tenant) -> SafeString:
        """Return the state as a badge, for the page of the tenant."""
        return badge(self.status(tenant), STATE_COLOURS)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        settings = ("weight", "checks_answers")
        if obj is None:
            return ("name", "slug", "owner_email", "owner", *settings)
        return ("slug", "state", "name", *settings, "created_at")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = TenantAddForm if obj is None else TenantForm
        return super().get_form(request, obj, change, **({"form": form} | kwargs))

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Sequence[str]]:
        return {"slug": ("name",)} if obj is None else {}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("slug", "state", "created_at")

    def available_actions(self, row: Any) -> tuple[str, ...]:
        """Return no actions once the deletion of its data has started."""
        if row.deletion_requested_at is not None:
            return ()
        return ("resume" if row.is_suspended else "suspend", "delete_data")

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        return [QuotaInline] if obj is None else [QuotaInline, MembershipInline]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The action deletes its data; the row is retained for billing.
        return False

    def save_model(self, request: HttpRequest, obj: Tenant, form: ModelForm, change: bool) -> None:
        checks, weight = obj.checks_answers, obj.weight
        if change:
            tenant_rename(tenant=obj, name=obj.name, actor=staff_user(request))
        else:
            owner, email = form.cleaned_data["owner"], form.cleaned_data["owner_email"]
            tenant = tenant_create(slug=obj.slug, name=obj.name, owner=owner, actor=staff_user(request))
            obj.pk, obj._state.adding = tenant.pk, False
            if email:
                self.invite_owner(request, tenant, email)
        tenant_set_answer_checks(tenant=obj, checks=checks, actor=staff_user(request))
        tenant_set_weight(tenant=obj, weight=weight, actor=staff_user(request))

    def invite_owner(self, request: HttpRequest, tenant: Tenant, email: str) -> None:
        """Invite the owner. The e-mail is sent once the tenant is saved."""
        invitation, token = invitation_create(
            tenant=tenant, email=email, role=Role.OWNER, actor=staff_user(request)
        )

        def send() -> None:
            link, status = invitation_send_email(
                invitation=invitation, token=token, build_url=request.build_absolute_uri
            )
            if status == EmailStatus.SENT:
                self.message_user(request, f"Invitation sent to {email}.", messages.SUCCESS)
                return
            text = f"No e-mail was sent. Give {email} this link, which is shown only once."
            self.message_user(request, shown_once(text, link), messages.WARNING)

        transaction.on_commit(send)

    def save_formset(self, request: HttpRequest, form: ModelForm, formset: Any, change: bool) -> None:
        """Save the quota by its service. Members cannot be edited here."""
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        for row in formset.forms:
            if formset.model is Quota and row.has_changed():
                limits = {name: row.cleaned_data[name] for name in row.changed_data}
                quota_change(tenant=form.instance, limits=limits, actor=staff_user(request))
                formset.changed_objects.append((row.instance, row.changed_data))

    @admin.action(description="Suspend", permissions=["change"])
    @require_typed_name(
        "suspend", warning="All requests of its members and API keys are refused until it is resumed."
    )
    def suspend(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Refuse all their requests."""
        done = sum(tenant_suspend(tenant=tenant, actor=staff_user(request)) for tenant in tenants)
        self.message_user(request, f"{done} suspended.", messages.WARNING)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Accept their requests again."""
        done = sum(tenant_resume(tenant=tenant, actor=staff_user(request)) for tenant in tenants)
        self.message_user(request, f"{done} resumed.", messages.SUCCESS)

    @admin.action(description="Delete all data", permissions=["change"])
    @require_typed_name(
        "delete",
        warning="Deletes all of this with its files, revokes its API keys and stops its jobs. This cannot be"
        " undone. The slug and one row of usage a day are kept for billing.",
        dependents=count_owned_rows,
    )
    def delete_data(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Suspend them. A worker deletes their data."""
        for tenant in tenants:
            delete = partial(tenant_delete, tenant=tenant, typed=tenant.slug, actor=staff_user(request))
            self.try_action(request, delete, f"All data of {tenant} is being deleted.")

    def try_action(self, request: HttpRequest, action: Callable[[], object], message: str) -> None:
        """Run the action and show the message, or the error."""
        try:
            action()
        except HmiError as error:
            self.message_user(request, error.message, messages.ERROR)
        else:
            self.message_user(request, message, messages.WARNING)


@admin.register(Membership)
class MembershipAdmin(ModelAdmin):
    """Memberships of users in tenants, with their roles."""

    list_display = ("tenant", "user", "role", "created_at")
    list_filter = ("role", ("tenant", AutocompleteSelectFilter))
    list_select_related = ("tenant", "user")
    search_fields = ("tenant__slug", "user__username", "user__email")
    autocomplete_fields = ("tenant", "user")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("tenant", "user")

    def save_model(self, request: HttpRequest, obj: Membership, form: ModelForm, change: bool) -> None:
        if change:
            member_set_role(membership=obj, role=obj.role, actor=staff_user(request))
            return
        membership = member_add(tenant=obj.tenant, user=obj.user, role=obj.role, actor=staff_user(request))
        obj.pk, obj._state.adding = membership.pk, False

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        member_remove(membership=obj, actor=staff_user(request))


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    """Quotas of all tenants."""

    form = QuotaForm
    list_display = (
        "tenant",
        "max_domains",
        "max_models",
        "storage",
        "max_requests_per_day",
        "max_active_jobs",
    )
    storage = file_size_column("max_storage_bytes", "Storage limit")
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug",)
    readonly_fields = ("tenant",)

    def save_model(self, request: HttpRequest, obj: Quota, form: ModelForm, change: bool) -> None:
        limits = {name: form.cleaned_data[name] for name in form.changed_data}
        quota_change(tenant=obj.tenant, limits=limits, actor=staff_user(request))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
