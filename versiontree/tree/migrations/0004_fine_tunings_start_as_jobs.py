"""Fine-tunings whose files are still to be validated get a background job, which starts them."""

from django.db import migrations

_CREATE = """
INSERT INTO jobs_job (
    id, kind, subject, tenant_id, created_by_id, created_at, queued_at, dispatched_at, state, max_attempts,
    progress, metrics, error_code, error_message, params, priority, attempt, worker, stage, traceback, dispatches
)
SELECT
    gen_random_uuid(), 'fine_tuning_start', id::text, tenant_id, created_by_id, now(), now(), now(), 'queued', 3,
    0, '{}', '', '', '{}', 0, 0, '', '', '', 0
FROM tree_finetuning
WHERE state = 'validating';
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_background_jobs"), ("tree", "0003_canary_counts_before")]
    operations = [
        migrations.RunSQL(_CREATE, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="finetuning", name="fine_tuning_validating"),
        migrations.RemoveField(model_name="finetuning", name="attempts"),
        migrations.RemoveField(model_name="finetuning", name="dispatched_at"),
    ]
