"""Of a tenant whose data is deleted, audit events keep what was done and when; the trigger lets them lose the
rest, and nothing else happen to them."""

from django.db import migrations

FORWARDS = """
CREATE OR REPLACE FUNCTION tenants_auditevent_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('hmi.leaving_tenant', true) = OLD.tenant_id::text
            AND (NEW.id, NEW.tenant_id, NEW.verb, NEW.at) IS NOT DISTINCT FROM (OLD.id, OLD.tenant_id, OLD.verb, OLD.at)
            AND NEW.subject = '' AND NEW.detail = '{}'::jsonb AND NEW.request_id = ''
            AND NEW.actor_id IS NULL AND NEW.api_key_id IS NULL AND NEW.address IS NULL THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit events are never changed or deleted' USING ERRCODE = 'restrict_violation';
END $$;
"""

BACKWARDS = """
CREATE OR REPLACE FUNCTION tenants_auditevent_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events are never changed or deleted' USING ERRCODE = 'restrict_violation';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0009_usage_by_key_and_takeouts")]

    operations = [migrations.RunSQL(FORWARDS, BACKWARDS)]
