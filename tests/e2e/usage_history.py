"""A tenant's usage of the past weeks, and what its models answered."""

from datetime import UTC, datetime, timedelta

from tenants.usage.models import AnswerDay, UsageDay
from tests.e2e.world import World
from versiontree.tree.models import Alias, Hplm
from versiontree.tree.services.canaries import canary_start


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


def create_answer_history(world: World, hplm: Hplm) -> None:
    """Create two weeks of answers by both versions of a model: the one that @default does not mean is its
    canary, and one day left the band of the dev split."""
    alias = Alias.unscoped.get(hplm=hplm, name="default")
    canary = hplm.versions.exclude(pk=alias.version_id).get()
    canary_start(hplm=hplm, name="default", version=canary, percent=20, actor=world.owner)
    now = datetime.now(UTC)
    Alias.unscoped.filter(pk=alias.pk).update(canary_started_at=now - timedelta(days=6))
    hplm.versions.update(ready_at=now - timedelta(days=20))
    today = now.date()
    for ago in range(14):
        day = today - timedelta(days=ago)
        texts = 150 + 37 * (ago % 5)
        for number, share, sure in ((alias.version.number, 4, 0.82), (canary.number, 1, 0.79)):
            AnswerDay.unscoped.create(
                tenant=world.tenant,
                day=day,
                model_name=hplm.name,
                version=number,
                requests=share * texts,
                failed=share * (ago % 3),
                texts=share * texts,
                table_texts=share * texts,
                confidence=share * texts * (0.93 if ago == 2 else sure - 0.01 * (ago % 4)),
                cascade_texts=share * texts,
                escalated_texts=share * (12 + ago) * 2,
                whole=share * texts * 14,
                part=share * texts * 9,
                unigram=share * texts * 4,
                checked_texts=share * 10,
                agreed_texts=share * (10 - ago % 2),
                drift="confidence 93.0% (81.7% on dev)" if ago == 2 else "",
            )
