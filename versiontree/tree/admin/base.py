"""Base classes and formatting helpers of the version tree's admin pages."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from tenants.base.admin.base import LINK_STYLE, ModelForm, PageActionsAdmin, collapsible, json_block
from tenants.base.errors import HmiError
from versiontree.tree.models.version import VERSION_STATE_COLOURS
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.training_fields import FieldWidgets, TrainingSettingsForm


def colours(styles: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Colours by label, as the admin theme names them. It has none for "neutral"."""
    return {label: "" if colour == "neutral" else colour for label, colour in styles}


STATE_COLOURS = colours((state.label, colour) for state, colour in VERSION_STATE_COLOURS.items())


VERSION_NAME: Final = ("version__root", "version__domain__root", "version__hplm__tenant")
"""What the name of a row's version is read from."""


class ServiceAdmin(PageActionsAdmin):
    """Rows that change only through services, which forms and actions call. Nothing is deleted here."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run actions: requires the permission to change rows of this kind."""
        user: Any = request.user
        return bool(user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def each(
        self, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], done: str
    ) -> None:
        """Call ``act`` for each row, and show the errors and the number of successes."""
        count = 0
        for row in rows:
            try:
                act(row)
                count += 1
            except HmiError as error:
                self.message_user(request, f"{row}: {error.message}", messages.ERROR)
        if count:
            self.message_user(request, f"{count} {done}.", messages.SUCCESS)


def collapsed_json(figures: Any) -> SafeString | None:
    """JSON in a block that starts collapsed, numbers rounded to six digits."""
    if not figures:
        return None
    return collapsible(json_block(_rounded(figures)))


def _rounded(figures: Any) -> Any:
    return json.loads(json.dumps(figures), parse_float=lambda number: float(f"{float(number):.6g}"))


def text_link(address: str, text: str) -> SafeString:
    """A link."""
    return format_html('<a class="{}" href="{}">{}</a>', LINK_STYLE, address, text)


# Not "dataset": the admin theme gives a form with a field of that name another meaning.
DATASET: Final = "chosen_dataset"


UNFOLD: Final = FieldWidgets(number=UnfoldAdminIntegerFieldWidget, select=UnfoldAdminSelectWidget)


class ServiceForm(ModelForm):
    """A form that calls a service: a dry run validates it, saving it calls the service for good."""

    def act(self, actor: Any) -> Any:
        """Call the service."""
        raise NotImplementedError

    def clean(self) -> Any:
        """Run the service in a dry run, and show its error at the field that it names."""
        cleaned = super().clean()
        if self.errors:
            return cleaned
        try:
            self.dry_run()
        except HmiError as error:
            invalid = forms.ValidationError(error.message, code=str(error.code))
            self.add_error(self._field_of(error.param), invalid)
        return cleaned

    def dry_run(self) -> None:
        """Run the service and roll back what it wrote. Raises what it raises."""
        dry_run(lambda: self.act(None))

    def _field_of(self, param: str | None) -> str | None:
        """The form's field for a parameter of the service. Settings of a job are fields of their own name."""
        name = DATASET if param == "dataset" else (param or "").removeprefix("settings.")
        return name if name in self.fields else None


class TrainingForm(TrainingSettingsForm, ServiceForm):
    """A service form with the settings of the training it starts."""

    widgets = UNFOLD
