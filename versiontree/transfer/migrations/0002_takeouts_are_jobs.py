"""Takeouts become background jobs. Their rows are moved with their ids, which name their files."""

import django.db.models.manager
from django.db import migrations

# An active one is queued, and gets its message from the recovery of jobs.
_MOVE = """
INSERT INTO jobs_job (
    id, kind, subject, tenant_id, created_by_id, created_at, queued_at, started_at, finished_at, dispatched_at,
    state, progress, metrics, error_code, error_message,
    params, priority, attempt, max_attempts, worker, stage, traceback, dispatches
)
SELECT
    id, 'takeout', tenant_id::text, tenant_id, created_by_id, created_at, created_at, created_at, finished_at,
    created_at,
    CASE state WHEN 'ready' THEN 'succeeded' WHEN 'failed' THEN 'failed' ELSE 'queued' END,
    CASE state WHEN 'ready' THEN 1 ELSE 0 END,
    CASE state WHEN 'ready' THEN jsonb_build_object('size_bytes', written_bytes) ELSE '{}' END,
    CASE state WHEN 'failed' THEN 'job_crashed' ELSE '' END,
    error_message,
    '{}', 0, 0, 3, '', '', '', 0
FROM transfer_takeout;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_background_jobs"), ("transfer", "0001_initial")]

    operations = [
        migrations.RunSQL(_MOVE, migrations.RunSQL.noop),
        migrations.DeleteModel(name="Takeout"),
        migrations.CreateModel(
            name="Takeout",
            fields=[],
            options={
                "verbose_name": "data export",
                "proxy": True,
                "base_manager_name": "unscoped",
                "indexes": [],
                "constraints": [],
            },
            bases=("jobs.job",),
            managers=[("unscoped", django.db.models.manager.Manager())],
        ),
    ]
