"""The admin pages of the application; Django finds them here."""

from tenants.datasets.admin import uploads

__all__ = ["uploads"]
