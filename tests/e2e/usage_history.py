"""A tenant's usage of the past weeks."""

from datetime import UTC, datetime, timedelta

from tenants.usage.models import UsageDay
from tests.e2e.world import World


def create_usage_history(world: World, key: str) -> None:
    """Create six weeks of usage, more on working days, by a key and by people."""
    today = datetime.now(UTC).date()
    for ago in range(1, 42):
        day = today - timedelta(days=ago)
        asked = 40 if day.weekday() > 4 else 220 + 37 * (ago % 5)
        for hplm, prefix, share in (("triage", key, 4), ("triage", "", 1), ("side-effects", key, 2)):
            UsageDay.unscoped.create(
                tenant=world.tenant,
                day=day,
                model_name=hplm,
                key_prefix=prefix,
                requests=share * asked,
                failed=asked // 60 * share,
                inputs=2 * share * asked,
                tokens=37 * share * asked,
                busy_ms=11.3 * share * asked,
            )
