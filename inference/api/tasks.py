"""Celery tasks of what is served."""

from celery import shared_task

from inference.api.drift import drift_watch
from inference.api.retention import append_only_file_rewrite


@shared_task(name="inference.watch_drift")
def watch_drift() -> None:
    """Record the versions whose answers left their band. Doing it again changes nothing."""
    drift_watch()


@shared_task(name="inference.rewrite_append_only_file")
def rewrite_append_only_file() -> None:
    """Remove expired prompts and answers from the file of the embedded Valkey."""
    append_only_file_rewrite()
