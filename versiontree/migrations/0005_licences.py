from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("versiontree", "0004_shards_compact_grow")]

    operations = [
        migrations.AddField(
            model_name="root",
            name="license",
            field=models.CharField(blank=True, db_default="", default="", max_length=100),
        ),
        migrations.AddField(
            model_name="root",
            name="source_url",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="Where it was published.", max_length=300
            ),
        ),
        migrations.AddField(
            model_name="hplm",
            name="license",
            field=models.CharField(blank=True, db_default="", default="", max_length=100),
        ),
    ]
