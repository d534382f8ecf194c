"""A root can be retired: nothing new is built on it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tree", "0006_roots_converted_again")]

    operations = [
        migrations.AddField(
            model_name="root",
            name="retired_at",
            field=models.DateTimeField(
                "retired",
                blank=True,
                null=True,
                help_text="Since then nothing new is built on it. What is there already is served as before.",
            ),
        ),
    ]
