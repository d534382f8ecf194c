"""The admin pages of the application; Django finds them here."""

from tenants.admin import arriving, files, invitations, keys, people, records, takeouts, uploads, webhooks

__all__ = ["arriving", "files", "invitations", "keys", "people", "records", "takeouts", "uploads", "webhooks"]
