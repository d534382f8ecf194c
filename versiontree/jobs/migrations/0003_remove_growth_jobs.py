"""Tables no longer grow from traffic. Jobs that did so become jobs that compacted one; active ones end."""

from typing import Any

from django.db import migrations, models

from tenants.base.scope import platform_scope

_KINDS = ("convert", "further_pretrain", "build_plot", "fine_tune", "evaluate", "compact")
# The trigger forbids to change the kind of a job.
_RENAME_KIND = """
ALTER TABLE jobs_job DISABLE TRIGGER jobs_job_guard;
UPDATE tree_version SET state = 'failed'
    WHERE state = 'building' AND id IN (SELECT version_id FROM jobs_job WHERE kind = 'grow');
UPDATE jobs_job SET state = 'cancelled', worker = '', lease_expires_at = NULL, finished_at = now()
    WHERE kind = 'grow' AND state IN ('waiting', 'queued', 'running');
UPDATE jobs_job SET kind = 'compact' WHERE kind = 'grow';
ALTER TABLE jobs_job ENABLE TRIGGER jobs_job_guard;
"""


def _rename_kind(_: Any, schema_editor: Any) -> None:
    with platform_scope(), schema_editor.connection.cursor() as cursor:
        cursor.execute(_RENAME_KIND)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_triggers"), ("tree", "0002_triggers")]

    operations = [
        migrations.RunPython(_rename_kind, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="job", name="job_kind_is_known"),
        migrations.AlterField(
            model_name="job",
            name="kind",
            field=models.CharField(
                choices=[
                    ("convert", "Convert"),
                    ("further_pretrain", "Further pretrain"),
                    ("build_plot", "Build PLOT"),
                    ("fine_tune", "Fine-tune"),
                    ("evaluate", "Evaluate"),
                    ("compact", "Compact PLOTs"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", list(_KINDS))),
                name="job_kind_is_known",
                violation_error_message="The kind of job is unknown.",
            ),
        ),
    ]
