"""Large upload checks that have not ended get a background job, which runs them."""

from django.db import migrations

_CREATE = """
INSERT INTO jobs_job (
    id, kind, subject, tenant_id, created_at, queued_at, dispatched_at, state, max_attempts,
    progress, metrics, error_code, error_message, params, priority, attempt, worker, stage, traceback, dispatches
)
SELECT
    gen_random_uuid(), 'upload_check', id::text, tenant_id, now(), now(), now(), 'queued', 3,
    0, '{}', '', '', '{}', 0, 0, '', '', '', 0
FROM datasets_uploadcheck
WHERE state IN ('waiting', 'running');
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_background_jobs"), ("datasets", "0003_delete_multipart_uploads")]
    operations = [
        migrations.RunSQL(_CREATE, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="uploadcheck", name="upload_check_active"),
        migrations.RemoveField(model_name="uploadcheck", name="attempts"),
        migrations.RemoveField(model_name="uploadcheck", name="dispatched_at"),
    ]
