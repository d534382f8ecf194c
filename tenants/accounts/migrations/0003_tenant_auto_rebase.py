"""Tenants say whether their models follow new versions of domains and roots by themselves."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_remove_fragment_counts")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="auto_rebase",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="When a domain or root has a new version, rebase the models on it by themselves.",
            ),
        ),
    ]
