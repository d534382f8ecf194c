"""The parts that long jobs are dealt out in."""

from django.contrib import admin
from django.utils.safestring import SafeString

from tenants.base.admin.base import ReadOnly, linked
from versiontree.jobs.models import JobShard


@admin.register(JobShard)
class JobShardAdmin(ReadOnly):
    """Which part of which job is done, by whom, and what became of it."""

    list_display = ("to_job", "stage", "number", "state", "worker", "attempts", "error_code")
    list_filter = ("state", "stage")
    list_select_related = ("job",)
    search_fields = ("job__id", "worker", "error_code")

    @admin.display(description="Job", ordering="job")
    def to_job(self, shard: JobShard) -> SafeString:
        """What it is a part of."""
        return linked(shard.job)
