"""The version tree as a Django app."""

from django.apps import AppConfig


class VersionTreeConfig(AppConfig):
    """What there is: roots, domains, hPLMs, their versions, aliases, artifacts and jobs."""

    name = "versiontree"
    verbose_name = "Version tree"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.signals import (
            check_requested,
            file_deleting,
            files_checked,
            serving_changed,
            takeout_requested,
            tenant_leaving,
            webhooks_due,
        )
        from versiontree.first_look import checked_fit
        from versiontree.services.files_in_use import file_keep_while_in_use
        from versiontree.services.leaving import leaving_begin
        from versiontree.services.nudges import check_nudge_send, takeout_nudge_send, webhooks_nudge_send
        from versiontree.serving import manifest_publish_on_commit

        serving_changed.connect(manifest_publish_on_commit)
        check_requested.connect(check_nudge_send)
        takeout_requested.connect(takeout_nudge_send)
        files_checked.connect(checked_fit)
        file_deleting.connect(file_keep_while_in_use)
        tenant_leaving.connect(leaving_begin)
        webhooks_due.connect(webhooks_nudge_send)
