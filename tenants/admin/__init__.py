"""The admin pages of the application; Django finds them here."""

from tenants.admin import keys, people, records, uploads

__all__ = ["keys", "people", "records", "uploads"]
