"""Audit events are written once: PostgreSQL refuses to change or delete them."""

from django.db import migrations

FORWARDS = """
CREATE FUNCTION tenants_auditevent_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events are never changed or deleted' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER tenants_auditevent_immutable BEFORE UPDATE OR DELETE ON tenants_auditevent
    FOR EACH ROW EXECUTE FUNCTION tenants_auditevent_refuse();
"""

BACKWARDS = """
DROP TRIGGER tenants_auditevent_immutable ON tenants_auditevent;
DROP FUNCTION tenants_auditevent_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [migrations.RunSQL(FORWARDS, BACKWARDS)]
