"""A select field that searches the rows of another model's admin."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.utils.http import urlencode
from unfold.widgets import UnfoldAdminAutocompleteWidget


class SearchSelect(AutocompleteSelect):
    """An autocomplete widget. ``within`` are filters of the rows (see ``AutocompleteFilterAdmin``)."""

    def __init__(self, field: Any, **within: str) -> None:
        super().__init__(field, admin.site, attrs={"class": "unfold-filter-autocomplete"})
        self.within = within

    def get_url(self) -> str:
        return f"{super().get_url()}?{urlencode(self.within)}"

    @property
    def media(self) -> forms.Media:
        """The scripts of the admin theme."""
        media: forms.Media = UnfoldAdminAutocompleteWidget().media
        return media
