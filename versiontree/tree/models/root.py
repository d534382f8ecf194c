"""A root: a pretrained model registered from a checkpoint."""

from django.conf import settings
from django.db import models

from versiontree.tree.models.constraints import slug_check


class Root(models.Model):
    """The top of one version tree; every domain and model below it shares its upper layers."""

    name = models.CharField(max_length=63, unique=True)
    source = models.CharField(max_length=1024, help_text="A local checkpoint folder or a hub id.")
    license = models.CharField(max_length=100, blank=True, default="", db_default="")
    source_url = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Where it was published."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [slug_check("root_name_is_a_slug")]

    def __str__(self) -> str:
        return self.name
