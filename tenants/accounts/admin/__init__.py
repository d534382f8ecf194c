"""The admin pages of the application; Django finds them here."""

from tenants.accounts.admin import api_keys, people

__all__ = ["api_keys", "people"]
