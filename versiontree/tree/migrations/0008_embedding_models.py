"""A model may only give embeddings."""

from django.db import migrations, models
from django.db.models import Q

TASKS = [
    ("classification", "Text classification"),
    ("multilabel", "Multi-label classification"),
    ("regression", "Regression"),
    ("tagging", "Token tagging"),
    ("question_answering", "Question answering"),
    ("generation", "Text generation"),
    ("chat", "Chat"),
    ("embedding", "Embeddings"),
]


class Migration(migrations.Migration):
    dependencies = [("tree", "0007_retired_roots")]

    operations = [
        migrations.AlterField(
            model_name="hplm",
            name="task",
            field=models.CharField(choices=TASKS, max_length=20),
        ),
        migrations.RemoveConstraint(model_name="hplm", name="hplm_task_is_known"),
        migrations.AddConstraint(
            model_name="hplm",
            constraint=models.CheckConstraint(
                condition=Q(task__in=[task for task, _ in TASKS]),
                name="hplm_task_is_known",
                violation_error_message="The task is unknown.",
            ),
        ),
    ]
