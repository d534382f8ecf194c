"""How much of uploads the tables hold."""

from django.contrib import admin

from tenants.base.admin.base import NotByHand
from versiontree.tree.models import Coverage


@admin.register(Coverage)
class CoverageAdmin(NotByHand):
    """What was measured; what is deleted is measured again when its page is looked at."""

    list_display = ("version", "corpus", "dataset", "tenant", "trigrams", "bigrams", "unigrams", "fault")
    list_select_related = (
        "tenant",
        "corpus__tenant",
        "dataset__tenant",
        "version__root",
        "version__domain__root",
        "version__hplm__tenant",
    )
    search_fields = ("corpus__name", "dataset__name", "tenant__slug")
