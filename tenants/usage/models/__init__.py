"""How much tenants may use, and what they have used."""

from tenants.usage.models.quota import Quota
from tenants.usage.models.usage import UsageDay, UsageMonth, UsageSum

__all__ = ["Quota", "UsageDay", "UsageMonth", "UsageSum"]
