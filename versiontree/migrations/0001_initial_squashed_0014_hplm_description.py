"""All tables of `versiontree`: what 0001 to 0014 come to, made at once."""

from django.conf import settings
from django.db import migrations

from tenants.migrations.squashed.at_once import CreateModels
from versiontree.migrations.squashed import artifacts, jobs, orders, tree, triggers, versions


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("versiontree", "0001_initial"),
        ("versiontree", "0002_tree_integrity"),
        ("versiontree", "0003_hplm_tasks"),
        ("versiontree", "0004_shards_compact_grow"),
        ("versiontree", "0005_licences"),
        ("versiontree", "0006_coverage"),
        ("versiontree", "0007_evaluations"),
        ("versiontree", "0008_publishing_and_pinning"),
        ("versiontree", "0009_fine_tunings"),
        ("versiontree", "0010_batches"),
        ("versiontree", "0011_version_of_tenant"),
        ("versiontree", "0012_version_artifacts_of_tenants"),
        ("versiontree", "0013_quick_lists"),
        ("versiontree", "0014_hplm_description"),
    ]
    dependencies = [
        ("tenants", "0001_initial_squashed_0019_kept_verdicts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        CreateModels(
            [
                *tree.MODELS,
                *versions.MODELS,
                *artifacts.MODELS,
                *jobs.MODELS,
                *orders.MODELS,
            ]
        ),
        triggers.TRIGGERS,
    ]
