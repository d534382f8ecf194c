"""Whose an artifact of a version is, in its own row: to know it, the version need not be looked up."""

import django.db.models.deletion
from django.db import migrations, models

_CHECK = """
CREATE OR REPLACE FUNCTION versiontree_versionartifact_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner_state text;
    owner_tenant bigint;
    artifact_kind text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'the artifacts of a version are never changed' USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        SELECT state INTO owner_state FROM versiontree_version WHERE id = OLD.version_id;
        IF owner_state = 'ready' THEN
            RAISE EXCEPTION 'a ready version keeps its artifacts' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    SELECT state, tenant_id INTO owner_state, owner_tenant FROM versiontree_version WHERE id = NEW.version_id;
    SELECT kind INTO artifact_kind FROM versiontree_artifact WHERE id = NEW.artifact_id;
    IF owner_state IN ('ready', 'retired') THEN
        RAISE EXCEPTION 'a finished version takes no more artifacts' USING ERRCODE = 'restrict_violation';
    END IF;
    IF artifact_kind <> NEW.role THEN
        RAISE EXCEPTION 'an artifact is used in the role of its kind'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    {more}
    RETURN NEW;
END $$;
"""
_OF_ITS_TENANT = """
    IF owner_tenant IS DISTINCT FROM NEW.tenant_id THEN
        RAISE EXCEPTION 'an artifact of a version is of the tenant of the version'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""
_FILL = """
SELECT set_config('application_name', 'hmi platform', true);
ALTER TABLE versiontree_versionartifact DISABLE TRIGGER versiontree_versionartifact_fixed;
UPDATE versiontree_versionartifact link SET tenant_id = owner.tenant_id
    FROM versiontree_version owner WHERE owner.id = link.version_id AND owner.tenant_id IS NOT NULL;
ALTER TABLE versiontree_versionartifact ENABLE TRIGGER versiontree_versionartifact_fixed;
DO $$ BEGIN
    IF EXISTS (SELECT FROM versiontree_versionartifact link JOIN versiontree_version owner
               ON owner.id = link.version_id WHERE owner.tenant_id IS DISTINCT FROM link.tenant_id) THEN
        RAISE EXCEPTION 'artifacts of versions have not been given their tenants';
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0015_parted_files"), ("versiontree", "0011_version_of_tenant")]

    operations = [
        migrations.AddField(
            model_name="versionartifact",
            name="tenant",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.tenant",
            ),
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="versionartifact",
            index=models.Index(
                fields=["tenant"], include=("version", "artifact"), name="version_artifact_of_tenant"
            ),
        ),
        migrations.RunSQL(_CHECK.format(more=_OF_ITS_TENANT), _CHECK.format(more="")),
    ]
