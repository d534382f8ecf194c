"""Fine-tunings whose new model gets a quick version."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tree", "0004_fine_tunings_start_as_jobs")]

    operations = [
        migrations.AddField(
            model_name="finetuning",
            name="quick",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
