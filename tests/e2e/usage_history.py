"""A tenant's usage of the past weeks, what its models answered, and its last requests."""

from datetime import UTC, datetime, timedelta

from tenants.usage.models import AnswerDay, LoggedRequest, OmittedRequests, UsageDay
from tenants.usage.services.usage import usage_sums_rebuild
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
                refused=asked // 25 * share,
                inputs=2 * share * asked,
                tokens=37 * share * asked,
                busy_ms=11.3 * share * asked,
            )
    usage_sums_rebuild(tenant=world.tenant)


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


def create_request_log(world: World, key: str) -> None:
    """Create some minutes of requests, by a key and by people: answered, failed and refused ones."""
    now = datetime.now(UTC)
    timings = {"queue": 9.4, "retrieval": 1.4, "adapter_load": 0.2, "compute": 12.9, "total": 24.3}
    answered = {"status": 200, "version": 1, "level": "cascade", "inputs": 4, "tokens": 118}
    failures = (
        {"status": 429, "error_code": "rate_limited", "latency_ms": 0.8},
        {"status": 504, "error_code": "deadline_exceeded", "latency_ms": 30_012.4, "version": 1},
        {
            "status": 404,
            "error_code": "not_found",
            "latency_ms": 3.1,
            "model_name": "triage",
            "reference": "acme/triage:7",
            "param": "model",
            "message": "triage has no version 7. Versions: 1, 2. Aliases: default.",
        },
    )
    for ago in range(60):
        details = {"levels": {"table": 3, "full": 1}, "timings_ms": timings}
        texts = ["Where is my parcel?", "I was charged twice."]
        own = {**answered, "latency_ms": 31.7, "details": details, "texts": texts}
        LoggedRequest.unscoped.create(
            **{
                "tenant": world.tenant,
                "at": now - timedelta(seconds=17 * (60 - ago)),
                "request_id": f"{ago:02}c6f2e0c41b4d4f8e6a7d3b9f0c2a51",
                "api": "infer" if ago % 4 else "playground",
                "model_name": "triage",
                "key_prefix": key if ago % 4 else "",
                **(failures[ago % 3] if ago % 7 == 3 else own),
            }
        )
    OmittedRequests.unscoped.create(tenant=world.tenant, hour=now, requests=12_400, failed=3)
