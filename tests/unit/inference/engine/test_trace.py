"""The trace of the pipeline, as viewers open it."""

import json

import pytest

from inference.engine.trace import STAGES, Trace
from tests.unit.inference.engine.chrome_traces import lanes_of


def test_a_trace_opens_in_chrome_with_a_lane_for_each_stage() -> None:
    trace = Trace()
    for batch in (7, 8):
        with trace.span("adapters", batch, "acquire"), trace.span("adapters", batch, "layer 0 of"):
            pass
        with trace.span("compute", batch, "compute"):
            pass
    stages = lanes_of(json.dumps(trace.chrome(process="gpu-1")), process="gpu-1")
    assert tuple(stages) == STAGES
    assert [event["name"] for event in stages["compute"]] == ["compute 7", "compute 8"]
    assert [event["args"]["batch"] for event in stages["adapters"]] == [7, 7, 8, 8]
    assert stages["retrieval"] == []


def test_what_fails_is_in_it_and_the_oldest_is_forgotten() -> None:
    trace = Trace(kept=2)
    for number in range(3):
        with pytest.raises(ZeroDivisionError), trace.span("compute", number, "compute"):
            raise ZeroDivisionError
    stages = lanes_of(json.dumps(trace.chrome()), process="inference worker")
    assert [event["args"]["batch"] for event in stages["compute"]] == [1, 2]


def test_an_interval_begins_where_it_is_wanted() -> None:
    trace = Trace()
    for number in range(3):
        with trace.span("compute", number, "compute"):
            pass
    since = trace.spans()[1].end
    assert [span.batch for span in trace.spans(since)] == [2]
    stages = lanes_of(json.dumps(trace.chrome(since)), process="inference worker")
    assert [event["args"]["batch"] for event in stages["compute"]] == [2]
