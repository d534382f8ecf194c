"""Celery tasks of what is served."""

from celery import shared_task

from inference.api.drift import drift_watch


@shared_task(name="inference.watch_drift")
def watch_drift() -> None:
    """Record the versions whose answers left their band. Doing it again changes nothing."""
    drift_watch()
