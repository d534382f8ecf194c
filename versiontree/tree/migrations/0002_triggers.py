"""What plain constraints cannot say about the tree: PostgreSQL itself refuses it."""

from django.db import migrations

_VERSION = """
CREATE FUNCTION tree_version_check_birth() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    up tree_version%ROWTYPE;
    owner_root bigint := NEW.root_id;
    owner_tenant bigint := NULL;
BEGIN
    IF NEW.kind = 'domain' THEN
        SELECT root_id, tenant_id INTO owner_root, owner_tenant FROM tree_domain WHERE id = NEW.domain_id;
    ELSIF NEW.kind = 'model' THEN
        SELECT tenant_id INTO owner_tenant FROM tree_hplm WHERE id = NEW.hplm_id;
    END IF;
    IF owner_root IS DISTINCT FROM NEW.root_id OR owner_tenant IS DISTINCT FROM NEW.tenant_id THEN
        RAISE EXCEPTION 'a version has the root and the tenant of what it is a version of'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF EXISTS (SELECT 1 FROM datasets_corpus WHERE id = NEW.corpus_id AND tenant_id IS NOT NULL
                AND tenant_id IS DISTINCT FROM NEW.tenant_id)
            OR EXISTS (SELECT 1 FROM datasets_dataset WHERE id = NEW.dataset_id
                AND tenant_id IS DISTINCT FROM NEW.tenant_id) THEN
        RAISE EXCEPTION 'a version learns from the data of its own tenant or of the platform'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.parent_id IS NULL THEN
        RETURN NEW;
    END IF;
    SELECT * INTO up FROM tree_version WHERE id = NEW.parent_id FOR SHARE;
    IF up.root_id <> NEW.root_id THEN
        RAISE EXCEPTION 'a version and its parent belong to one root'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF up.tenant_id IS NOT NULL AND up.tenant_id IS DISTINCT FROM NEW.tenant_id THEN
        RAISE EXCEPTION 'the parent of a version belongs to its tenant or to the platform'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF up.kind = 'model' AND up.hplm_id IS DISTINCT FROM NEW.hplm_id THEN
        RAISE EXCEPTION 'under a version of a model stand only its own newer versions'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.kind = 'root' AND up.kind <> 'root' THEN
        RAISE EXCEPTION 'the parent of a version of a root is one too'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF up.state <> 'ready' THEN
        RAISE EXCEPTION 'the parent of a new version is ready'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_version_birth BEFORE INSERT ON tree_version
    FOR EACH ROW EXECUTE FUNCTION tree_version_check_birth();

CREATE FUNCTION tree_version_check_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.parent_id, NEW.kind, NEW.root_id, NEW.domain_id, NEW.hplm_id, NEW.tenant_id, NEW.number,
            NEW.config, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.parent_id, OLD.kind, OLD.root_id, OLD.domain_id, OLD.hplm_id, OLD.tenant_id,
            OLD.number, OLD.config, OLD.created_at) THEN
        RAISE EXCEPTION 'what identifies a version never changes' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.digest <> '' AND NEW.digest <> OLD.digest THEN
        RAISE EXCEPTION 'the digest of a version never changes' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> OLD.state AND (OLD.state || '>' || NEW.state) NOT IN
            ('building>ready', 'building>failed', 'failed>building', 'ready>retired') THEN
        RAISE EXCEPTION 'a version does not go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'ready' AND NEW.state <> 'ready'
            AND EXISTS (SELECT 1 FROM tree_alias WHERE version_id = OLD.id) THEN
        RAISE EXCEPTION 'an alias points at this version' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_version_change BEFORE UPDATE ON tree_version
    FOR EACH ROW EXECUTE FUNCTION tree_version_check_change();

CREATE FUNCTION tree_version_check_death() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tree_version WHERE parent_id = OLD.id) THEN
        RAISE EXCEPTION 'versions stand below this one' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT 1 FROM tree_alias WHERE version_id = OLD.id) THEN
        RAISE EXCEPTION 'an alias points at this version' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER tree_version_death BEFORE DELETE ON tree_version
    FOR EACH ROW EXECUTE FUNCTION tree_version_check_death();
"""

_ALIAS = """
CREATE FUNCTION tree_alias_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    target tree_version%ROWTYPE;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.hplm_id, NEW.name) IS DISTINCT FROM (OLD.hplm_id, OLD.name) THEN
        RAISE EXCEPTION 'an alias keeps its name and its model' USING ERRCODE = 'restrict_violation';
    END IF;
    SELECT * INTO target FROM tree_version WHERE id = NEW.version_id FOR SHARE;
    IF target.hplm_id IS DISTINCT FROM NEW.hplm_id OR target.state <> 'ready' THEN
        RAISE EXCEPTION 'an alias points at a ready version of its own model'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_alias_target BEFORE INSERT OR UPDATE ON tree_alias
    FOR EACH ROW EXECUTE FUNCTION tree_alias_check();
"""

_ARTIFACT = """
CREATE FUNCTION tree_artifact_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'artifacts are never changed' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER tree_artifact_immutable BEFORE UPDATE ON tree_artifact
    FOR EACH ROW EXECUTE FUNCTION tree_artifact_refuse();

CREATE FUNCTION tree_versionartifact_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner_state text;
    owner_tenant bigint;
    artifact_kind text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'the artifacts of a version are never changed' USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        SELECT state INTO owner_state FROM tree_version WHERE id = OLD.version_id;
        IF owner_state = 'ready' THEN
            RAISE EXCEPTION 'a ready version keeps its artifacts' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    SELECT state, tenant_id INTO owner_state, owner_tenant FROM tree_version WHERE id = NEW.version_id;
    SELECT kind INTO artifact_kind FROM tree_artifact WHERE id = NEW.artifact_id;
    IF owner_state = 'retired' OR owner_state = 'ready' AND NEW.role <> 'cascade' THEN
        RAISE EXCEPTION 'a finished version takes no more artifacts' USING ERRCODE = 'restrict_violation';
    END IF;
    IF artifact_kind <> NEW.role THEN
        RAISE EXCEPTION 'an artifact is used in the role of its kind'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF owner_tenant IS DISTINCT FROM NEW.tenant_id THEN
        RAISE EXCEPTION 'an artifact of a version is of the tenant of the version'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_versionartifact_fixed BEFORE INSERT OR UPDATE OR DELETE ON tree_versionartifact
    FOR EACH ROW EXECUTE FUNCTION tree_versionartifact_check();
"""

_CANARY = """
CREATE FUNCTION tree_alias_check_canary() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.canary_id IS NULL THEN
        RETURN NEW;
    END IF;
    PERFORM FROM tree_version WHERE id = NEW.canary_id AND hplm_id = NEW.hplm_id AND state = 'ready' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the canary of an alias is a ready version of its own model'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_alias_canary BEFORE INSERT OR UPDATE ON tree_alias
    FOR EACH ROW EXECUTE FUNCTION tree_alias_check_canary();

CREATE FUNCTION tree_version_check_canary() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'ready' AND NEW.state <> 'ready'
            AND EXISTS (SELECT 1 FROM tree_alias WHERE canary_id = OLD.id) THEN
        RAISE EXCEPTION 'this version is the canary of an alias' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_version_canary BEFORE UPDATE ON tree_version
    FOR EACH ROW EXECUTE FUNCTION tree_version_check_canary();
"""

_ROOT_KIND = """
CREATE FUNCTION tree_root_check_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the kind of a root never changes' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER tree_root_kind BEFORE UPDATE OF kind ON tree_root
    FOR EACH ROW WHEN (NEW.kind IS DISTINCT FROM OLD.kind) EXECUTE FUNCTION tree_root_check_change();

CREATE FUNCTION tree_version_check_root_kind() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    root_kind text;
    hplm_task text;
BEGIN
    SELECT kind INTO root_kind FROM tree_root WHERE id = NEW.root_id;
    IF root_kind = 'decoder' AND NEW.policy <> '' THEN
        RAISE EXCEPTION 'a version of a generative model has no policy'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF root_kind = 'decoder' AND NEW.kind = 'domain' THEN
        RAISE EXCEPTION 'a decoder has no domains' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.kind = 'model' AND NEW.hplm_id IS NOT NULL THEN
        SELECT task INTO hplm_task FROM tree_hplm WHERE id = NEW.hplm_id;
        IF (hplm_task IN ('generation', 'chat')) IS DISTINCT FROM (root_kind = 'decoder') THEN
            RAISE EXCEPTION 'generative models stand on decoder roots, other models on encoder roots'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tree_version_root_kind BEFORE INSERT OR UPDATE OF policy ON tree_version
    FOR EACH ROW EXECUTE FUNCTION tree_version_check_root_kind();
"""

_BACKWARDS = """
DROP FUNCTION tree_versionartifact_check, tree_artifact_refuse, tree_alias_check, tree_version_check_death,
    tree_version_check_change, tree_version_check_birth, tree_alias_check_canary, tree_version_check_canary,
    tree_root_check_change, tree_version_check_root_kind CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("datasets", "0001_initial"), ("tree", "0001_initial")]
    operations = [migrations.RunSQL(_VERSION + _ALIAS + _ARTIFACT + _CANARY + _ROOT_KIND, _BACKWARDS)]
