"""Tenants that are being deleted get a background job, which continues their deletion."""

from django.db import migrations

_CREATE = """
INSERT INTO jobs_job (
    id, kind, subject, created_at, queued_at, dispatched_at, state, max_attempts,
    progress, metrics, error_code, error_message, params, priority, attempt, worker, stage, traceback, dispatches
)
SELECT
    gen_random_uuid(), 'tenant_deletion', id::text, now(), now(), now(), 'queued', 32767,
    0, '{}', '', '', '{}', 0, 0, '', '', '', 0
FROM accounts_tenant
WHERE deletion_requested_at IS NOT NULL AND deletion_finished_at IS NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("transfer", "0002_takeouts_are_jobs")]
    operations = [migrations.RunSQL(_CREATE, migrations.RunSQL.noop)]
