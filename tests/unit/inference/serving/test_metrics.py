"""What the inference worker counts, read as Prometheus reads it."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inference.cascade.dispatcher import Coverage, Level
from inference.engine.rows import ModelIdentity, Outcome, StageSeconds
from inference.generation.scheduler import GenerationCounts
from inference.manifest import Manifest, ServedRoot
from inference.queueing.messages import InferReply, InferRequest, TimingsMs, TokenSequence
from inference.serving.metric_families import FRESH_KEPT, REVIEW_S
from inference.serving.metrics import GaugeValues, WorkerMetrics, places_of
from tests.unit.fake_clock import FakeClock
from tests.unit.inference.serving.outcomes import ROOT, TABLE, a_failure, a_row, an_answer

MANIFEST = Manifest(Path(), roots={ROOT: ServedRoot(ROOT, "tiny", {}, "")}, tables={TABLE: "acme/medicine"})
STANDING = GaugeValues(resident_hplms=3, resident_bytes=4096, backlog_rows=7, slot_mismatches=0)
REQUEST = InferRequest(
    id="1",
    tenant="acme",
    hplm="mood",
    version=1,
    digest="d",
    root=ROOT,
    sequences=(TokenSequence(bytes(4)),),
    deadline=130.0,
    enqueued_at=100.0,
    reply_to="reply-stream",
)


class Figures:
    """The metrics of a worker, by sample: ``figures("hmi_worker_rows_total", code="ok")``."""

    def __init__(self, *, names: int = 50) -> None:
        self.clock = FakeClock()
        self.standing = STANDING
        place = places_of(lambda: MANIFEST)
        self.metrics = WorkerMetrics(lambda: self.standing, place=place, names=names, clock=self.clock)

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        text = generate_latest(self.metrics.registry).decode()
        families = text_string_to_metric_families(text)
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, frozenset(labels.items())))

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for found, labels in self.samples() if found == name}

    def batch(self, *outcomes: Outcome, seconds: float = 0.2, ended: float = 50.2) -> None:
        self.metrics.batch_computed(outcomes, seconds=seconds, ended=ended)


@pytest.fixture
def figures() -> Figures:
    return Figures()


def test_a_batch_is_counted_in_rows_tokens_and_tenants(figures: Figures) -> None:
    long, short = a_row(tokens=10), a_row("globex", tokens=4)
    figures.batch(an_answer(long), an_answer(short), a_failure(short))
    assert figures("hmi_worker_batch_rows_count") == 1
    assert figures("hmi_worker_batch_rows_sum") == 3
    assert figures("hmi_worker_batch_tenants_sum") == 2
    assert figures("hmi_worker_tokens_total") == 18
    assert figures("hmi_worker_rows_total", code="ok") == 2
    assert figures("hmi_worker_rows_total", code="inference_failed") == 1
    assert figures("hmi_worker_batch_seconds_sum") == pytest.approx(0.2)


def test_the_stages_of_a_batch_are_the_sums_of_its_rows_shares(figures: Figures) -> None:
    seconds = StageSeconds(retrieval=0.01, adapter_load=0.02, compute=0.03)
    figures.batch(an_answer(a_row(), seconds=seconds), an_answer(a_row(), seconds=seconds))
    for stage, total in (("retrieval", 0.02), ("adapter_load", 0.04), ("compute", 0.06)):
        assert figures("hmi_worker_stage_seconds_sum", stage=stage) == pytest.approx(total)
        assert figures("hmi_worker_stage_seconds_count", stage=stage) == 1


def test_the_last_batch_is_the_last_one_with_an_answer(figures: Figures) -> None:
    last = "hmi_worker_last_batch_timestamp_seconds"
    assert figures(last) == 0
    figures.batch(an_answer(a_row()), a_failure(a_row()), ended=60.0)
    figures.batch(a_failure(a_row()), ended=70.0)
    assert figures(last) == 60.0
    assert figures("hmi_worker_stage_seconds_count", stage="compute") == 1


def test_figures_of_decoders_have_the_root_as_label(figures: Figures) -> None:
    counts = GenerationCounts(
        running=3,
        waiting=2,
        blocks=100,
        block_size=16,
        used_blocks=40,
        cached_blocks=25,
        computed_tokens=900,
        found_tokens=80,
        generated_tokens=500,
        preemptions=1,
    )
    assert not figures.labels("hmi_worker_kv_blocks", "root")
    figures.standing = replace(STANDING, decoders={"smol": counts})
    figures.metrics.step_computed(seconds=0.03)
    for state, count in (("running", 3), ("waiting", 2)):
        assert figures("hmi_worker_generation_sequences", root="smol", state=state) == count
    for state, count in (("used", 40), ("cached", 25), ("free", 35)):
        assert figures("hmi_worker_kv_blocks", root="smol", state=state) == count
    assert figures("hmi_worker_generated_tokens_total", root="smol") == 500
    assert figures("hmi_worker_generation_computed_tokens_total", root="smol") == 900
    assert figures("hmi_worker_kv_found_tokens_total", root="smol") == 80
    assert figures("hmi_worker_preemptions_total", root="smol") == 1
    assert figures("hmi_worker_generation_step_seconds_sum") == pytest.approx(0.03)


def test_fragments_are_counted_by_level_root_and_domain(figures: Figures) -> None:
    coverage = Coverage(whole=5, part=4, unigram=3)
    other_lower = f"{ROOT}:{'m' * 64}:{TABLE}"
    figures.batch(
        an_answer(a_row(), coverage=coverage), an_answer(a_row(chain=other_lower), coverage=coverage)
    )
    figures.batch(an_answer(a_row(), coverage=coverage), an_answer(a_row(), coverage=coverage))
    where = {"root": "tiny", "domain": "acme/medicine"}
    for level, count in (("trigram", 20), ("bigram", 16), ("unigram", 12)):
        assert figures("hmi_worker_fragments_total", level=level, **where) == count


def test_rows_are_counted_by_the_level_that_answered_them(figures: Figures) -> None:
    from_tables, computed = an_answer(a_row()), an_answer(replace(a_row(), level=Level.FULL))
    figures.batch(from_tables, replace(from_tables, escalates=True), computed, computed)
    where = {"root": "tiny", "domain": "acme/medicine"}
    for level, count in (("table", 1), ("escalated", 1), ("full", 2)):
        assert figures("hmi_worker_level_rows_total", level=level, **where) == count


def test_an_hplm_that_was_there_is_a_hit_and_one_that_was_loaded_is_none(figures: Figures) -> None:
    load = figures.metrics.timed_load(lambda model: model.hplm.upper())
    assert load(ModelIdentity("acme", "mood", 1, "mood")) == "MOOD"
    assert figures("hmi_worker_adapter_load_seconds_count") == 1
    figures.batch(an_answer(a_row()), an_answer(a_row()))
    assert figures("hmi_worker_adapter_hits_total") == 0
    figures.batch(an_answer(a_row()), an_answer(a_row()), a_failure(a_row(hplm="never there")))
    assert figures("hmi_worker_adapter_hits_total") == 1


def test_oldest_unused_load_is_forgotten(figures: Figures) -> None:
    load = figures.metrics.timed_load(lambda model: model.hplm)
    for number in range(FRESH_KEPT + 1):
        load(ModelIdentity("acme", "mood", 1, f"h{number}"))
    figures.batch(an_answer(a_row(hplm="h0")), an_answer(a_row(hplm="h1")))
    assert figures("hmi_worker_adapter_hits_total") == 1  # h0, which was loaded longest ago


def test_an_hplm_that_cannot_be_loaded_is_counted_and_still_raises(figures: Figures) -> None:
    def broken(model: ModelIdentity) -> None:
        raise KeyError(model.hplm)

    with pytest.raises(KeyError, match="mood"):
        figures.metrics.timed_load(broken)(a_row().model)
    assert figures("hmi_worker_adapter_load_failures_total") == 1
    assert figures("hmi_worker_adapter_load_seconds_count") == 0


def test_requests_are_counted_by_code_with_their_waiting(figures: Figures) -> None:
    good = InferReply(id="1", ok=True, model=REQUEST.model, timings_ms=TimingsMs(queue=400.0, total=500.0))
    late = InferReply.failure("2", REQUEST.model, "deadline_exceeded", "too late")
    figures.metrics.requests_answered([(REQUEST, good), (REQUEST, late)], now=102.0)
    figures.metrics.requests_answered([(REQUEST, good)], now=99.0)  # two machines' clocks may differ
    assert figures("hmi_worker_requests_total", code="ok") == 2
    assert figures("hmi_worker_requests_total", code="deadline_exceeded") == 1
    assert figures("hmi_worker_request_queue_seconds_sum") == pytest.approx(0.8)
    assert figures("hmi_worker_request_queue_seconds_count") == 2
    assert figures("hmi_worker_request_seconds_sum") == pytest.approx(4.0)


def test_state_of_the_worker_is_read_at_each_scrape(figures: Figures) -> None:
    assert figures("hmi_worker_resident_models") == 3
    assert figures("hmi_worker_resident_model_bytes") == 4096
    assert figures("hmi_worker_backlog_rows") == 7
    assert figures("hmi_worker_slot_mismatches_total") == 0
    figures.standing = replace(STANDING, slot_mismatches=1)
    assert figures("hmi_worker_slot_mismatches_total") == 1


def test_tenants_are_counted_by_name(figures: Figures) -> None:
    figures.batch(an_answer(a_row(tokens=3)), a_failure(a_row(tokens=3)), an_answer(a_row("globex")))
    assert figures("hmi_worker_tenant_rows_total", tenant="acme") == 2
    assert figures("hmi_worker_tenant_tokens_total", tenant="acme") == 6
    assert figures("hmi_worker_tenant_failed_rows_total", tenant="acme") == 1
    assert figures("hmi_worker_tenant_failed_rows_total", tenant="globex") == 0


def test_a_busier_tenant_takes_the_series_of_another() -> None:
    few = Figures(names=1)
    few.batch(an_answer(a_row("first", chain="first:l:d")))
    few.batch(*[an_answer(a_row("second", chain="second:l:d")) for _ in range(5)])
    assert few.labels("hmi_worker_tenant_rows_total", "tenant") == {"first", "other"}
    few.clock.now += REVIEW_S
    few.batch(an_answer(a_row("second", chain="second:l:d")))
    assert few.labels("hmi_worker_tenant_rows_total", "tenant") == {"second", "other"}
    assert few("hmi_worker_tenant_rows_total", tenant="other") == 5
    assert few("hmi_worker_tenant_rows_total", tenant="second") == 1
    assert few.labels("hmi_worker_fragments_total", "root") == {"second", "other"}
    assert few.labels("hmi_worker_level_rows_total", "root") == {"second", "other"}
