"""What others may want to hear of: this application knows nobody that stands above it."""

from django.dispatch import Signal

serving_changed = Signal()
"""Inference workers must hear of a change to a tenant; sent inside its transaction."""

check_requested = Signal()
"""Uploads wait to be checked; sent after the commit, with ``check_id``."""
