"""The admin pages of the application; Django finds them here."""

from tenants.datasets.admin import files, incoming, uploads

__all__ = ["files", "incoming", "uploads"]
