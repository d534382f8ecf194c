"""What the admin pages of this application share."""

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tenants.models import User

if TYPE_CHECKING:

    class ModelAdmin(admin.ModelAdmin[Any]):
        """Unfold's, which is not typed."""

    TabularInline = admin.TabularInline[Any, Any]
    StackedInline = admin.StackedInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
else:
    from django.forms import ModelForm
    from unfold.admin import ModelAdmin, StackedInline, TabularInline

__all__ = [
    "Listing",
    "ModelAdmin",
    "ModelForm",
    "NotByHand",
    "ReadOnly",
    "StackedInline",
    "Uploading",
    "acting",
    "linked",
    "pretty_json",
]


_LINK_STYLE = "text-primary-600 dark:text-primary-500"


class NotByHand(ModelAdmin):
    """Rows that are neither added nor edited; name it first in the bases."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnly(NotByHand):
    """Rows that are looked at, never touched."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Listing(TabularInline):
    """Rows that are shown on the page of what they belong to, and not changed there."""

    extra = 0
    can_delete = False
    hide_title = True

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Uploading(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's own class is not generic
    """Saves outside the admin's transaction, as uploads need; name it after ``ModelAdmin`` in the bases."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        view: HttpResponse = self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined]
        return view


def acting(request: HttpRequest) -> User:
    """The member of staff at the keyboard."""
    if not isinstance(request.user, User):
        raise TypeError("the admin has only signed-in users")
    return request.user


def linked(row: Model, text: str = "") -> SafeString:
    """The row by its name, or by this text, leading to its page."""
    opts = row._meta
    address = reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[row.pk])
    return format_html('<a class="{}" href="{}">{}</a>', _LINK_STYLE, address, text or row)


def pretty_json(value: Any) -> SafeString:
    """JSON as an indented block."""
    return format_html(
        "<pre style='white-space: pre-wrap'>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False)
    )
