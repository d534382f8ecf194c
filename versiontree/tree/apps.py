from django.apps import AppConfig


class TreeConfig(AppConfig):
    name = "versiontree.tree"
    label = "tree"
    verbose_name = "Version tree"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.base.background_jobs import BackgroundKind, BackgroundWork, background_work
        from tenants.base.child_process import TASK_TIME_LIMIT_S
        from versiontree.jobs.hooks import register_owner
        from versiontree.tree.selectors.recommended_root import checked_fit
        from versiontree.tree.selectors.versions import artifact_bytes
        from versiontree.tree.services.compaction import domains_compact_due
        from versiontree.tree.services.fine_tunings import (
            fine_tuning_crashed,
            fine_tuning_start,
            fine_tunings_of_file,
        )
        from versiontree.tree.services.garbage_collection import artifacts_collect
        from versiontree.tree.services.rebase_tasks import rebases_due_on_commit
        from versiontree.tree.services.version_jobs import VersionJobs
        from versiontree.tree.serving_manifest import manifest_publish_on_commit

        register_owner(VersionJobs())
        hooks.serving_changed.register(manifest_publish_on_commit)
        hooks.storage_used.register(artifact_bytes)
        hooks.check_details.register(checked_fit)
        hooks.file_users.register(fine_tunings_of_file)
        hooks.expiry.register(artifacts_collect)
        hooks.expiry.register(domains_compact_due)
        hooks.expiry.register(rebases_due_on_commit)
        background_work[BackgroundKind.FINE_TUNING_START] = BackgroundWork(
            fine_tuning_start, fine_tuning_crashed, time_limit_s=TASK_TIME_LIMIT_S
        )
