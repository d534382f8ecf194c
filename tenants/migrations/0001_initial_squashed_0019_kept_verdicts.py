"""All tables of `tenants`: what 0001 to 0019 come to, made at once."""

from django.db import migrations

from tenants.migrations.squashed import (
    audit,
    data,
    files,
    keys,
    people,
    tenants,
    triggers,
    uploads,
    usage,
    webhooks,
)
from tenants.migrations.squashed.at_once import CreateModels


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("tenants", "0001_initial"),
        ("tenants", "0002_audit_events_never_change"),
        ("tenants", "0003_tasks_pairs_and_sharing"),
        ("tenants", "0004_stopped_sharing_at"),
        ("tenants", "0005_tenant_weight"),
        ("tenants", "0006_uploads_and_checks"),
        ("tenants", "0007_invitations_and_key_rotation"),
        ("tenants", "0008_rate_limits_and_user_names"),
        ("tenants", "0009_usage_by_key_and_takeouts"),
        ("tenants", "0010_audit_events_of_tenants_that_leave"),
        ("tenants", "0011_webhooks"),
        ("tenants", "0012_usage_sums"),
        ("tenants", "0013_files"),
        ("tenants", "0014_kept_answers"),
        ("tenants", "0015_parted_files"),
        ("tenants", "0016_usage_by_month"),
        ("tenants", "0017_kept_checks"),
        ("tenants", "0018_batch_events"),
        ("tenants", "0019_kept_verdicts"),
    ]
    dependencies = [("auth", "0012_alter_user_first_name_max_length")]
    operations = [
        CreateModels(
            [
                *tenants.MODELS,
                *people.MODELS,
                *keys.MODELS,
                *data.MODELS,
                *uploads.MODELS,
                *files.MODELS,
                *audit.MODELS,
                *usage.MODELS,
                *webhooks.MODELS,
            ]
        ),
        triggers.TRIGGERS,
    ]
