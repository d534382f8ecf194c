"""The page of the inference workers: figures, pipelines and traces."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from redis import Redis

from inference.api.admission import close_gateway
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import Recently, TracedSpan, WorkerStatus
from inference.queueing.worker_commands import TRACE, CommandListener
from tests.integration.frontend.reading import Page

SPANS = (
    TracedSpan("retrieval", 7, "retrieve", 0.0, 5.0),
    TracedSpan("adapters", 7, "layer 0 of", 1.0, 2.0),
    TracedSpan("compute", 7, "compute", 5.0, 15.0),
    TracedSpan("retrieval", 8, "retrieve", 6.0, 4.0),
)
PAGE = "/admin/serving/"


def beat(redis: Redis, name: str = "w1", **more: object) -> None:
    """A worker with a heartbeat."""
    known = {"state": "ready", "device": "cuda:0", "dtype": "float16", **more}
    status = WorkerStatus(name, **known)  # type: ignore[arg-type]
    Heartbeat(redis, name, status.encode).beat()


def shown(client: Client, *, live: bool = False) -> Page:
    answer = client.get(PAGE, headers={"HX-Request": "true"} if live else {})
    assert answer.status_code == 200
    return Page(answer.content.decode())


def test_figures_of_the_head_are_of_all_workers_together(
    staff: Client, redis: Redis, settings: Settings
) -> None:
    settings.HMI_INFER_CAPACITY = 96
    beat(redis, "w1", recently=Recently(100.5, 10, 3.25, 20.0, 30.0))
    beat(redis, "w2", recently=Recently(20.0, 2000, 11.0, 12.0, 1300.0), state="draining")
    beat(redis, "w3")
    facts = dict(shown(staff).facts[:6])
    assert facts == {
        "Workers ready": "2 of 3",
        "Rows per second": "120.5 last 30 s",
        "Median latency": "11 ms of 2,010 requests",
        "p95 latency": "20 ms last 30 s",
        "p99 latency": "1,300 ms last 30 s",
        "Outstanding": "0 of 96",
    }


def test_the_picture_has_a_lane_for_each_stage_and_a_colour_for_each_batch(
    staff: Client, redis: Redis
) -> None:
    beat(redis, recently=Recently(spans=SPANS))
    answer = staff.get(PAGE).content.decode()
    page = Page(answer)
    stages = {stage["aria-label"]: stage for stage in page.tags["svg"] if stage.get("aria-label")}
    assert list(stages) == ["retrieval", "adapters", "compute"]
    pieces = [(one["class"], one["x"], one["width"]) for one in page.tags["rect"]]
    assert pieces == [
        ("hmi-batch-2", "0.000", "25.000"),  # of 20 ms, batch 7
        ("hmi-batch-3", "30.000", "20.000"),
        ("hmi-batch-2", "5.000", "10.000"),
        ("hmi-batch-2", "25.000", "75.000"),
    ]
    assert "retrieve batch 8: 4.0 ms" in answer
    assert "Last batches, 20 ms of work" in answer


def test_pauses_in_which_no_lane_works_are_cut_short(staff: Client, redis: Redis) -> None:
    spans = [
        TracedSpan(stage, batch, "at work", 1000.0 * batch + start, length)
        for batch in (0, 1)
        for stage, start, length in (("retrieval", 0.0, 10.0), ("compute", 10.0, 40.0))
    ]
    beat(redis, recently=Recently(spans=tuple(spans)))
    answer = staff.get(PAGE).content.decode()
    assert "100 ms of work" in answer  # and 4 ms of the 950 between
    pieces = Page(answer).tags["rect"]
    begins, widths = ([1.04 * float(str(one[name])) for one in pieces] for name in ("x", "width"))
    assert begins == pytest.approx([0, 54, 10, 64], abs=0.01)
    assert widths == pytest.approx([10, 10, 40, 40], abs=0.01)


def test_an_error_and_a_slot_mismatch_stand_out(staff: Client, redis: Redis) -> None:
    beat(redis, last_error="mood is <damaged>", slot_mismatches=2)
    answer = staff.get(PAGE).content.decode()
    assert Page(answer).all_of("Last error") == ["mood is <damaged>"]
    assert "2 rows were rejected because a slot held another model" in answer
    beat(redis)
    answer = staff.get(PAGE).content.decode()
    assert Page(answer).all_of("Last error") == []
    assert "rows were rejected" not in answer


def test_the_live_part_is_the_page_without_its_frame_and_asks_again(staff: Client, redis: Redis) -> None:
    beat(redis)
    whole, part = shown(staff), shown(staff, live=True)
    assert (len(whole.tags["html"]), len(part.tags["html"])) == (1, 0)
    assert part.facts == whole.facts
    [asking] = [tag for tag in part.tags["div"] if "hx-get" in tag]
    assert asking["hx-get"] == reverse("admin:serving-workers")


def test_without_the_queue_the_page_says_so(staff: Client, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    close_gateway()
    answer = staff.get(PAGE).content.decode()
    refused = staff.get("/admin/serving/w1/trace.json")
    assert "The queue cannot be reached" in answer
    assert Page(answer).facts == []
    assert refused.status_code == 503


def test_the_trace_of_a_worker_is_a_file_to_download(staff: Client, redis: Redis) -> None:
    beat(redis, "gpu/0 é", recently=Recently(spans=SPANS))
    [link] = [tag for tag in shown(staff).tags["a"] if "download" in tag]
    told = b'{"traceEvents": []}'
    with CommandListener(redis, "gpu/0 é", {TRACE: lambda: told}):
        answer = staff.get(str(link["href"]))
    assert (answer.status_code, answer.content) == (200, told)
    assert answer["Content-Type"] == "application/json"
    assert answer["Content-Disposition"].startswith("attachment; filename")


def test_there_is_no_trace_of_a_worker_that_is_not_there(staff: Client, redis: Redis) -> None:
    beat(redis, "w1")
    with CommandListener(redis, "w2", {TRACE: lambda: b"{}"}):
        assert staff.get("/admin/serving/w2/trace.json").status_code == 404
