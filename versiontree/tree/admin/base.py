"""What the admin pages of the version tree share."""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from tenants.base.admin.base import PageActions
from tenants.base.errors import HmiError
from versiontree.tree.models.version import VERSION_STATE_STYLE


def colours(styles: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Labels with their colours in the words of the admin, which has none for neutral."""
    return {label: "" if colour == "neutral" else colour for label, colour in styles}


STATE_COLOURS = colours((state.label, colour) for state, colour in VERSION_STATE_STYLE.items())


class Serviced(PageActions):
    """Rows that change only through services: forms and actions call them; nothing is deleted here."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """For actions: may the person change rows of this kind at all?"""
        user: Any = request.user
        return bool(user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))

    def each(
        self, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], done: str
    ) -> None:
        """Do it to every row and tell how it went."""
        count = 0
        for row in rows:
            try:
                act(row)
                count += 1
            except HmiError as error:
                self.message_user(request, f"{row}: {error.message}", messages.ERROR)
        if count:
            self.message_user(request, f"{count} {done}.", messages.SUCCESS)
