"""The admin pages of the application; Django finds them here."""

from tenants.admin import arriving, keys, people, records, uploads

__all__ = ["arriving", "keys", "people", "records", "uploads"]
