"""What the admin pages of this application share."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_user_model
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.utils import display_for_label

from tenants.base.upload_concurrency import takes_files

if TYPE_CHECKING:
    from tenants.accounts.models import User

    class ModelAdmin(admin.ModelAdmin[Any]):
        """Unfold's, which is not typed."""

    TabularInline = admin.TabularInline[Any, Any]
    StackedInline = admin.StackedInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
else:
    from django.forms import ModelForm
    from unfold.admin import ModelAdmin as Unfolded
    from unfold.admin import StackedInline, TabularInline

    class ModelAdmin(Unfolded):
        """Says what a row that is to be deleted takes with it, or what keeps it."""

        delete_confirmation_template = "base/admin/delete.html"
        list_per_page = 25


__all__ = [
    "Listing",
    "ModelAdmin",
    "ModelForm",
    "Narrowed",
    "NotByHand",
    "PageActions",
    "ReadOnly",
    "StackedInline",
    "Uploading",
    "acting",
    "badge",
    "json_block",
    "keys",
    "linked",
    "linked_list",
    "opening",
    "pretty_json",
    "sized",
    "to_the_second",
]


LINK_STYLE = "text-primary-600 dark:text-primary-500"


PAGE_OF = "page_of"
FOLDED_FROM = 20
"""Lines of JSON."""


class PageActions(ModelAdmin):
    """Has some of its list's actions on the page of each row as well, as buttons that lead back there."""

    on_page: ClassVar[tuple[str, ...]] = ()
    for_good: ClassVar[tuple[str, ...]] = ()
    """Those of them that cannot be undone: they stand apart, in red."""
    change_form_outer_before_template = "base/admin/page_actions.html"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id)) if self.on_page else None
        known = {name: str(text) for name, text in self.get_action_choices(request)}
        offered = [name for name in self.offered(row) if name in known] if row else []
        actions = {
            "page_actions": [(name, known[name]) for name in offered if name not in self.for_good],
            "page_actions_for_good": [(name, known[name]) for name in offered if name in self.for_good],
        }
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **actions})

    def offered(self, row: Any) -> tuple[str, ...]:
        """Those of them that make sense for this row."""
        return self.on_page

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *more: Any, **named: Any
    ) -> HttpResponse | None:
        response = super().response_action(request, queryset, *more, **named)
        page = request.POST.get(PAGE_OF, "")
        if not page or not isinstance(response, HttpResponseRedirect):
            return response
        if self.get_object(request, page) is None:  # what was done has deleted it
            return response
        return HttpResponseRedirect(page_of(self, page))


class Narrowed(ModelAdmin):
    """Where rows are searched for a form: by the words, and by what stands beside them in the address, each
    name of which is one of these look-ups."""

    narrowing: ClassVar[dict[str, Callable[[QuerySet[Any], str], QuerySet[Any]]]] = {}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, twice = super().get_search_results(request, queryset, search_term)
        if request.resolver_match and request.resolver_match.url_name == "autocomplete":
            for name, narrow in self.narrowing.items():
                if value := request.GET.get(name):
                    found = narrow(found, value)
        return found, twice


def keys(told: str) -> list[int]:
    """The key that an address has, if it is one."""
    return [int(told)] if told.isascii() and told.isdecimal() else []


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
    per_page = 25

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Uploading(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's own class is not generic
    """Saves outside the admin's transaction, as uploads need; name it after ``ModelAdmin`` in the bases."""

    @takes_files
    def add_view(self, request: HttpRequest, *given: Any, **more: Any) -> HttpResponse:
        return super().add_view(request, *given, **more)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        view: HttpResponse = self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined]
        return view


def acting(request: HttpRequest) -> "User":
    """The member of staff at the keyboard."""
    if not isinstance(request.user, get_user_model()):
        raise TypeError("the admin has only signed-in users")
    return request.user


def page_of(model_admin: Any, pk: str) -> str:
    """The address of the page of a row."""
    opts = model_admin.opts
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[quote(pk)])


def linked(row: Model, text: str = "") -> SafeString:
    """The row by its name, or by this text, leading to its page."""
    opts = row._meta
    address = reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[row.pk])
    return format_html('<a class="{}" href="{}">{}</a>', LINK_STYLE, address, text or row)


def linked_list(model: type[Model], query: str, text: str) -> SafeString:
    """These words, leading to the list of the rows that the query finds."""
    opts = model._meta
    address = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return format_html('<a class="{} underline" href="{}?{}">{}</a>', LINK_STYLE, address, query, text)


def badge(told: str | tuple[str, str], colours: dict[str, str]) -> SafeString:
    """A state on the page of a row, as the column of a list has it: a word, or a word and what is said."""
    return SafeString(display_for_label(told, "", colours))


def sized(field: str, title: str = "Size") -> Callable[[Any, Any], str]:
    """A column of bytes as people read them, sorted by the field."""

    @admin.display(description=title, ordering=field)
    def column(_: Any, row: Any) -> str:
        return filesizeformat(getattr(row, field))

    return column


def to_the_second(moment: datetime) -> str:
    """The moment as other columns have it, and its second, on one line."""
    return f"{moment:%-d %b %Y, %H:%M:%S}".replace(" ", "\N{NO-BREAK SPACE}")


def pretty_json(value: Any) -> SafeString:
    """JSON as an indented block, which opens when asked for if it is long."""
    block = json_block(value)
    return block if block.count("\n") < FOLDED_FROM else opening(block)


def json_block(value: Any) -> SafeString:
    """JSON as an indented block."""
    return format_html('<pre class="hmi-json">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False))


def opening(block: SafeString) -> SafeString:
    """What opens when asked for."""
    return format_html("<details><summary>Show</summary>{}</details>", block)
