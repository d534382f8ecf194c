"""What others may want to hear of: this application knows nobody that stands above it."""

from django.dispatch import Signal

serving_changed = Signal()
"""Inference workers must hear of a change to a tenant; sent inside its transaction."""

tenant_leaving = Signal()
"""All data of a tenant is to be deleted; sent inside the transaction, with ``tenant``. Who hears of it may
refuse, by raising."""

file_deleting = Signal()
"""A file is to be deleted; sent inside the transaction, which holds its row, with ``file``. Who hears of it
may refuse, by raising."""

takeout_requested = Signal()
"""All data of a tenant is to be put into a file; sent after the commit, with ``takeout_id``."""

check_requested = Signal()
"""Uploads wait to be checked; sent after the commit, with ``check_id``."""

files_checked = Signal()
"""Files passed a check; sent with ``check`` and ``checked`` while its files are there. What those who hear of
it answer, a dict, is told with what the check found."""

webhooks_due = Signal()
"""Events wait to be sent to webhooks; sent after the commit."""
