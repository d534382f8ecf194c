"""A root that is converted again has a version that stands on no other."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("tree", "0005_fine_tunings_with_quick_versions")]

    operations = [
        migrations.RemoveConstraint(model_name="version", name="version_has_a_parent"),
        migrations.AddConstraint(
            model_name="version",
            constraint=models.CheckConstraint(
                condition=Q(parent__isnull=False) | Q(kind="root"),
                name="version_has_a_parent",
                violation_error_message="A version needs a parent, unless it is one of a root.",
            ),
        ),
    ]
