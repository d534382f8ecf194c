"""Base classes and helpers of the admin pages."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_user_model
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from unfold.utils import display_for_label

from tenants.base.admin.columns import grouped_columns
from tenants.base.admin.constraint_errors import ConstraintErrors
from tenants.base.file_sizes import file_size
from tenants.base.row_ids import row_id
from tenants.base.upload_concurrency import accepts_uploads

if TYPE_CHECKING:
    from tenants.accounts.models import User

    class ModelAdmin(admin.ModelAdmin[Any]):
        """Unfold's, which is not typed."""

    TabularInline = admin.TabularInline[Any, Any]
    StackedInline = admin.StackedInline[Any, Any]
    ModelForm = forms.ModelForm[Any]
else:
    from unfold.admin import ModelAdmin as UnfoldModelAdmin
    from unfold.admin import StackedInline, TabularInline
    from unfold.contrib.filters.admin import AutocompleteSelectFilter

    class ModelForm(ConstraintErrors, forms.ModelForm):
        """A model form that shows the error of a constraint at a field."""

    class ModelAdmin(UnfoldModelAdmin):
        """An admin whose delete page lists what is deleted along, or what prevents the deletion.

        Filters that are typed into get a button that applies them. Rows that a service deletes are deleted
        one by one, as on their pages; there may be very many others, such as failed sign-ins.
        """

        form = ModelForm
        delete_confirmation_template = "base/admin/delete.html"
        list_per_page = 20

        def get_list_display(self, request: HttpRequest) -> list[Any]:
            return grouped_columns(self.model, super().get_list_display(request))

        @property
        def list_filter_submit(self) -> bool:
            kinds = [one[1] for one in self.list_filter if isinstance(one, tuple)]
            return any(issubclass(kind, AutocompleteSelectFilter) for kind in kinds)

        def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
            if type(self).delete_model is UnfoldModelAdmin.delete_model:
                super().delete_queryset(request, queryset)
                return
            for row in queryset:
                self.delete_model(request, row)


__all__ = [
    "AutocompleteFilterAdmin",
    "ModelAdmin",
    "ModelForm",
    "NoAddOrChangeAdmin",
    "NonAtomicAdmin",
    "PageActionsAdmin",
    "ReadOnlyAdmin",
    "ReadOnlyInline",
    "StackedInline",
    "admin_link",
    "badge",
    "changelist_link",
    "collapsible",
    "file_size_column",
    "format_timestamp",
    "html_lines",
    "json_block",
    "once_per_row",
    "parse_ids",
    "pretty_json",
    "staff_user",
    "text_lines",
]

LINK_STYLE: Final = "text-primary-600 dark:text-primary-500 underline"
RETURN_TO_FIELD: Final = "return_to"
"""The POST field with the key of the row whose page an action was started from."""
MAX_OPEN_JSON_LINES: Final = 20
"""Longer JSON is shown collapsed."""


class PageActionsAdmin(ModelAdmin):
    """An admin that also shows some of its list's actions as buttons on the page of each row.

    ``page_actions`` names them. Those that cannot be undone are in ``destructive_actions`` too: they are red
    and stand apart. After the action the browser returns to the page.
    """

    page_actions: ClassVar[tuple[str, ...]] = ()
    destructive_actions: ClassVar[tuple[str, ...]] = ()
    change_form_outer_before_template = "base/admin/page_actions.html"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id)) if self.page_actions else None
        labels = {name: str(label) for name, label in self.get_action_choices(request)}
        names = [name for name in self.available_actions(row) if name in labels] if row else []
        destructive = self.destructive_actions
        context = {
            "page_actions": [(name, labels[name]) for name in names if name not in destructive],
            "destructive_page_actions": [(name, labels[name]) for name in names if name in destructive],
        }
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **context})

    def available_actions(self, row: Any) -> tuple[str, ...]:
        """Return those of ``page_actions`` that apply to this row."""
        return self.page_actions

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        response = super().response_action(request, queryset, *args, **kwargs)
        page = request.POST.get(RETURN_TO_FIELD, "")
        if not page or not isinstance(response, HttpResponseRedirect):
            return response
        if response.url != request.get_full_path():  # the action leads elsewhere
            return response
        if self.get_object(request, page) is None:  # the action deleted it
            return response
        return HttpResponseRedirect(change_url(self, page))


class AutocompleteFilterAdmin(ModelAdmin):
    """An admin whose autocomplete search is narrowed by parameters of the query string.

    ``autocomplete_filters`` maps a parameter to a function of the rows and its value.
    """

    autocomplete_filters: ClassVar[dict[str, Callable[[QuerySet[Any], str], QuerySet[Any]]]] = {}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        rows, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        if request.resolver_match and request.resolver_match.url_name == "autocomplete":
            for name, apply_filter in self.autocomplete_filters.items():
                if value := request.GET.get(name):
                    rows = apply_filter(rows, value)
        return rows, may_have_duplicates


class NoAddOrChangeAdmin(ModelAdmin):
    """An admin of rows that can be deleted, but neither added nor edited. Name it first in the bases."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(NoAddOrChangeAdmin):
    """An admin of rows that can only be viewed."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(TabularInline):
    """Related rows that can only be viewed."""

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


class NonAtomicAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's own class is not generic
    """Saves without the admin's transaction, for uploads. Name it after ``ModelAdmin`` in the bases."""

    @accepts_uploads
    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().add_view(request, *args, **kwargs)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        view: HttpResponse = self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined]
        return view


def parse_ids(value: str) -> list[int]:
    """Return the integer key in a query parameter as a list of one, or an empty list."""
    return [found] if (found := row_id(value)) else []


def staff_user(request: HttpRequest) -> "User":
    """Return the signed-in member of staff."""
    if not isinstance(request.user, get_user_model()):
        raise TypeError("the admin has only signed-in users")
    return request.user


def change_url(model_admin: Any, pk: str) -> str:
    """Return the URL of a row's admin page."""
    opts = model_admin.opts
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[quote(pk)])


def once_per_row(display: Callable[[Any, Any], SafeString]) -> Callable[[Any, Any], SafeString]:
    """Decorate a read-only field that is costly: a row's page asks for its content up to five times."""

    @wraps(display)
    def cached(model_admin: Any, row: Model) -> SafeString:
        contents: dict[str, SafeString] = row.__dict__.setdefault("_contents", {})
        if display.__name__ not in contents:
            contents[display.__name__] = display(model_admin, row)
        return contents[display.__name__]

    return cached


def admin_link(row: Model, text: str = "") -> SafeString:
    """Return a link to a row's admin page, with this text or the row's name."""
    opts = row._meta
    url = reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[row.pk])
    return format_html('<a class="{}" href="{}">{}</a>', LINK_STYLE, url, text or row)


def changelist_link(model: type[Model], query: str, text: str) -> SafeString:
    """Return a link to the admin list of a model, filtered by a query string."""
    opts = model._meta
    url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return format_html('<a class="{}" href="{}?{}">{}</a>', LINK_STYLE, url, query, text)


def badge(label: str | tuple[str, str], colours: dict[str, str]) -> SafeString:
    """Return a state as a coloured label, as lists show it: a word, or the key of the colour and a text."""
    return SafeString(display_for_label(label, "", colours))


def file_size_column(field: str, title: str = "Size") -> Callable[[Any, Any], str]:
    """Return a list column that shows a field of bytes as KB or MB and sorts by it."""

    @admin.display(description=title, ordering=field)
    def column(_: Any, row: Any) -> str:
        return file_size(getattr(row, field))

    return column


def format_timestamp(moment: datetime) -> str:
    """Return a date and time to the second, without line breaks."""
    return f"{moment:%-d %b %Y, %H:%M:%S}".replace(" ", "\N{NO-BREAK SPACE}")


def pretty_json(value: Any) -> SafeString:
    """Return indented JSON, collapsed if it is long."""
    block = json_block(value)
    return block if block.count("\n") < MAX_OPEN_JSON_LINES else collapsible(block)


def json_block(value: Any) -> SafeString:
    """Return indented JSON."""
    return format_html('<pre class="hmi-json">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False))


def collapsible(block: SafeString) -> SafeString:
    """Wrap a block so that it opens on a click."""
    return format_html("<details><summary>Show</summary>{}</details>", block)


def shown_once(text: str, secret: str) -> SafeString:
    """Return a message with a secret that no later page shows, and a button that copies it."""
    return format_html(
        '{} <code class="hmi-secret" id="shown-once">{}</code>'
        ' <button type="button" class="hmi-copy" data-copy="shown-once">Copy</button>',
        text,
        secret,
    )


def text_lines(lines: Iterable[str]) -> SafeString:
    """One line each, escaped."""
    return html_lines(format_html("{}", line) for line in lines)


def html_lines(lines: Iterable[SafeString]) -> SafeString:
    """One line each."""
    return format_html_join(mark_safe("<br>"), "{}", ((line,) for line in lines))
