"""Batches are worked through by background jobs, which have their attempts and messages."""

from django.db import migrations

# For batches that have not ended, and for those whose output is not stored yet.
_CREATE = """
INSERT INTO jobs_job (
    id, kind, subject, tenant_id, created_at, queued_at, dispatched_at, state, max_attempts, priority,
    progress, metrics, error_code, error_message, params, attempt, worker, stage, traceback, dispatches
)
SELECT
    gen_random_uuid(), 'batch', id::text, tenant_id, now(), now(), now(), 'queued', 5, 9,
    0, '{}', '', '', '{}', 0, '', '', '', 0
FROM batches_batch
WHERE state IN ('waiting', 'running')
    OR results_bytes > 0 AND results_id IS NULL
    OR errors_bytes > 0 AND errors_id IS NULL;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [("batches", "0001_initial"), ("jobs", "0005_batches_are_jobs")]

    operations = [
        migrations.RunSQL(_CREATE, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="batch", name="batches_at_work"),
        migrations.RemoveField(model_name="batch", name="attempts"),
        migrations.RemoveField(model_name="batch", name="dispatched_at"),
    ]
