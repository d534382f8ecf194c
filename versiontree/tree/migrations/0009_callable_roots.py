"""A root can be called by its name, unless administrators turn that off."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tree", "0008_embedding_models")]

    operations = [
        migrations.AddField(
            model_name="root",
            name="is_callable",
            field=models.BooleanField(
                "callable",
                default=True,
                db_default=True,
                help_text="Tenants can call it by its name: a decoder for chats and completions, an encoder for "
                "embeddings.",
            ),
        ),
    ]
