"""The answers that versions gave to test rows."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ReadOnly
from versiontree.tree.models import Evaluation


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly):
    """Which answers are kept; the page of the version shows them."""

    list_display = ("version", "dataset", "tenant", "artifact", "made_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "made_at")
    list_filter_submit = True
    list_select_related = (
        "tenant",
        "artifact",
        "version__hplm__tenant",
        "version__root",
        "version__domain__root",
    )
    search_fields = ("dataset", "test", "tenant__slug", "version__hplm__name")
