"""Audit events are written once: PostgreSQL refuses to change or delete them."""

from django.db import migrations

# When all data of a tenant is deleted, its audit events keep their verb and time, and the rest is blanked.
_AUDIT = """
CREATE FUNCTION audit_auditevent_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('hmi.deleted_tenant', true) = OLD.tenant_id::text
            AND (NEW.id, NEW.tenant_id, NEW.verb, NEW.at) IS NOT DISTINCT FROM (OLD.id, OLD.tenant_id, OLD.verb, OLD.at)
            AND NEW.subject = '' AND NEW.detail = '{}'::jsonb AND NEW.request_id = ''
            AND NEW.actor_id IS NULL AND NEW.api_key_id IS NULL AND NEW.address IS NULL THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit events are never changed or deleted' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER audit_auditevent_immutable BEFORE UPDATE OR DELETE ON audit_auditevent
    FOR EACH ROW EXECUTE FUNCTION audit_auditevent_refuse();
"""

_BACKWARDS = """
DROP FUNCTION audit_auditevent_refuse CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]
    operations = [migrations.RunSQL(_AUDIT, _BACKWARDS)]
