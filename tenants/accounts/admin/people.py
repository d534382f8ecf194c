"""Users, tenants, memberships, quotas."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants.accounts.models import Membership, Tenant, User
from tenants.accounts.services.members import member_add, member_remove, member_set_role
from tenants.accounts.services.tenant_deletion import tenant_delete
from tenants.accounts.services.tenant_rows import owned_models, owned_rows
from tenants.accounts.services.tenants import (
    quota_change,
    tenant_create,
    tenant_rename,
    tenant_resume,
    tenant_set_sharing,
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
    staff_user,
)
from tenants.base.admin.confirm import require_typed_name
from tenants.base.errors import HmiError
from tenants.usage.models import Quota

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Groups of staff."""


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """People. Deactivate them rather than delete them: what they did keeps their name."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "last_login", "date_joined")
    autocomplete_fields = ("groups",)
    filter_horizontal = ("user_permissions",)
    list_filter = ("is_active", "is_staff", "is_superuser")


class MembershipInline(ReadOnlyInline):
    """The members; they are changed on their own pages."""

    model = Membership
    fields = ("member", "role", "created_at")

    @admin.display(description="Member")
    def member(self, membership: Membership) -> SafeString:
        """Who it is."""
        return admin_link(membership, str(membership.user))


class QuotaInline(StackedInline):
    """How much the tenant may have and use."""

    model = Quota
    can_delete = False


def count_owned_rows(tenant: Tenant) -> list[str]:
    """What is lost with a tenant, counted."""
    counted = [(model, owned_rows(model, tenant).count()) for model in reversed(owned_models())]
    return [
        f"{count:,} {model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural}"
        for model, count in counted
        if count
    ]


STATES = {"at work": "success", "suspended": "warning", "being deleted": "danger", "deleted": ""}


@admin.register(Tenant)
class TenantAdmin(PageActionsAdmin):
    """Tenants; suspended ones get 403 for everything."""

    list_display = (
        "slug",
        "name",
        "status",
        "member_count",
        "weight",
        "created_at",
    )
    list_filter = (
        ("suspended_at", admin.EmptyFieldListFilter),
        ("deletion_requested_at", admin.EmptyFieldListFilter),
        "shares_fragment_counts",
        "created_at",
    )
    ordering = ("slug",)
    search_fields = ("slug", "name")
    actions: tuple[str, ...] = ("suspend", "resume", "leave")
    page_actions = actions
    destructive_actions = ("leave",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tenants: QuerySet[Any] = super().get_queryset(request).annotate(member_count=Count("memberships"))
        return tenants

    @admin.display(description="Members", ordering="member_count")
    def member_count(self, tenant: Any) -> int:
        """How many people belong to it."""
        return int(tenant.member_count)

    @display(description="State", ordering="suspended_at", label=STATES)  # type: ignore[untyped-decorator]
    def status(self, tenant: Tenant) -> tuple[str, str]:
        """Whether it works, and since when not; the first word has the colour."""
        if tenant.deletion_finished_at is not None:
            return "deleted", f"deleted on {tenant.deletion_finished_at:%Y-%m-%d}"
        if tenant.deletion_requested_at is not None:
            return "being deleted", "being deleted"
        if tenant.suspended_at is not None:
            return "suspended", f"suspended on {tenant.suspended_at:%Y-%m-%d}"
        return "at work", "at work"

    @admin.display(description="State")
    def state(self, tenant: Tenant) -> SafeString:
        """The same on its page."""
        return badge(self.status(tenant), STATES)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        chosen = ("name", "weight", "shares_fragment_counts")
        return ("slug", *chosen) if obj is None else ("slug", "state", *chosen, "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("slug", "state", "created_at")

    def available_actions(self, row: Any) -> tuple[str, ...]:
        """One that leaves can be nothing else any more."""
        if row.deletion_requested_at is not None:
            return ()
        return ("resume" if row.is_suspended else "suspend", "leave")

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        return [] if obj is None else [QuotaInline, MembershipInline]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Its row stays for the bills; its data is deleted by an action.
        return False

    def save_model(self, request: HttpRequest, obj: Tenant, form: ModelForm, change: bool) -> None:
        shares, weight = obj.shares_fragment_counts, obj.weight
        if change:
            tenant_rename(tenant=obj, name=obj.name, actor=staff_user(request))
        else:
            made = tenant_create(slug=obj.slug, name=obj.name, actor=staff_user(request))
            obj.pk, obj._state.adding = made.pk, False
        tenant_set_sharing(tenant=obj, shares=shares, actor=staff_user(request))
        tenant_set_weight(tenant=obj, weight=weight, actor=staff_user(request))

    def save_formset(self, request: HttpRequest, form: ModelForm, formset: Any, change: bool) -> None:
        """Quotas are changed by their service; members on their own pages."""
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        for row in formset.forms:
            if formset.model is Quota and row.has_changed():
                limits = {name: row.cleaned_data[name] for name in row.changed_data}
                quota_change(tenant=form.instance, limits=limits, actor=staff_user(request))
                formset.changed_objects.append((row.instance, row.changed_data))

    @admin.action(description="Suspend", permissions=["change"])
    @require_typed_name(
        "suspend", warning="All requests of its people and programs are refused until it is resumed."
    )
    def suspend(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Stop all their requests."""
        done = sum(tenant_suspend(tenant=tenant, actor=staff_user(request)) for tenant in tenants)
        self.message_user(request, f"{done} suspended.", messages.WARNING)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Let them work again."""
        done = sum(tenant_resume(tenant=tenant, actor=staff_user(request)) for tenant in tenants)
        self.message_user(request, f"{done} resumed.", messages.SUCCESS)

    @admin.action(description="Delete all data", permissions=["change"])
    @require_typed_name(
        "delete",
        warning="All of this is deleted for good, with its files; its keys stop working and its jobs end. One"
        " row of usage a day is kept for billing, and its slug, which nobody else can take.",
        dependents=count_owned_rows,
    )
    def leave(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Suspends them; a worker deletes what they have."""
        for tenant in tenants:
            begin = partial(tenant_delete, tenant=tenant, typed=tenant.slug, actor=staff_user(request))
            self.try_action(request, begin, f"All data of {tenant} is being deleted.")

    def try_action(self, request: HttpRequest, act: Callable[[], object], said: str) -> None:
        """Do it and say so, or say why it was refused."""
        try:
            act()
        except HmiError as error:
            self.message_user(request, error.message, messages.ERROR)
        else:
            self.message_user(request, said, messages.WARNING)


@admin.register(Membership)
class MembershipAdmin(ModelAdmin):
    """Who belongs to which tenant, in which role."""

    list_display = ("tenant", "user", "role", "created_at")
    list_filter = ("role", ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("tenant", "user")
    search_fields = ("tenant__slug", "user__username", "user__email")
    autocomplete_fields = ("tenant", "user")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("tenant", "user")

    def save_model(self, request: HttpRequest, obj: Membership, form: ModelForm, change: bool) -> None:
        if change:
            member_set_role(membership=obj, role=obj.role, actor=staff_user(request))
            return
        made = member_add(tenant=obj.tenant, user=obj.user, role=obj.role, actor=staff_user(request))
        obj.pk, obj._state.adding = made.pk, False

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        member_remove(membership=obj, actor=staff_user(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Membership]) -> None:
        for membership in queryset:
            member_remove(membership=membership, actor=staff_user(request))


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    """All quotas side by side."""

    list_display = (
        "tenant",
        "max_domains",
        "max_models",
        "storage",
        "max_requests_per_day",
        "max_active_jobs",
    )
    storage = file_size_column("max_storage_bytes", "Max storage")
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
