"""What plain constraints cannot say about jobs: PostgreSQL itself refuses it."""

from django.db import migrations

_JOB = """
CREATE FUNCTION jobs_job_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner_tenant bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.kind, NEW.version_id, NEW.tenant_id, NEW.after_id)
            IS DISTINCT FROM (OLD.id, OLD.kind, OLD.version_id, OLD.tenant_id, OLD.after_id) THEN
            RAISE EXCEPTION 'what identifies a job never changes' USING ERRCODE = 'restrict_violation';
        END IF;
        IF OLD.state = 'succeeded' AND NEW.state <> OLD.state THEN
            RAISE EXCEPTION 'a job that succeeded is done' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    SELECT tenant_id INTO owner_tenant FROM tree_version WHERE id = NEW.version_id;
    IF owner_tenant IS DISTINCT FROM NEW.tenant_id THEN
        RAISE EXCEPTION 'a job belongs to the tenant of its version'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.after_id IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM jobs_job WHERE id = NEW.after_id AND version_id = NEW.version_id) THEN
        RAISE EXCEPTION 'a job waits only for a job of the same version'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_job_guard BEFORE INSERT OR UPDATE ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION jobs_job_check();
"""

_BACKWARDS = """
DROP FUNCTION jobs_job_check CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial"), ("tree", "0001_initial")]
    operations = [migrations.RunSQL(_JOB, _BACKWARDS)]
