"""The benchmark of response times, from saturation to its report, with a tiny encoder."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import response_time
from benchmarks.serving.world import ENCODERS, Encoder

pytestmark = [pytest.mark.slow, pytest.mark.unit]
SMALL = {
    "--encoder": "tiny",
    "--device": "cpu",
    "--threads": "1",
    "--rows": "4",
    "--tokens": "8",
    "--repeats": "2",
    "--time": "0.01",
}
SCHEMES = {"hBERT", "hBERT-adapter", "dedicated", "shared"}


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What it wrote."""
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "kept"))
    monkeypatch.setitem(ENCODERS, "tiny", Encoder("tiny", 2, 16, 2, 32))
    monkeypatch.setattr(response_time, "STORED", 40)
    monkeypatch.setattr(response_time, "LEAST_REQUESTS", 5)
    told = tmp_path / "told.json"
    options = {**SMALL, "--json": str(told), "--pictures": str(tmp_path)}
    assert response_time.main(["--quick", *(word for option in options.items() for word in option)]) == 0
    assert (tmp_path / "response_time_tenants.svg").is_file()
    assert (tmp_path / "response_time_burst.svg").is_file()
    found: dict[str, Any] = json.loads(told.read_text())
    return found


def test_every_scheme_is_asked_the_same_and_the_figures_are_there(document: dict[str, Any]) -> None:
    asked = {(row["asked, load"], row["requests"], row["scheme"]) for row in document["rows"]}
    patterns = {(name, requests) for name, requests, _ in asked}
    assert len(patterns) == len(response_time.QUICK_LOADS) + 1
    assert asked == {(*pattern, scheme) for pattern in patterns for scheme in SCHEMES}
    assert document["figures"]["p99_ratio_burst"] > 0
    assert 0 <= document["figures"]["missed"] <= 1
    assert document["settings"]["deadline_s"] == pytest.approx(0.3)
    assert len(document["settings"]["rows_a_second"]) == 2


def test_the_burst_asks_for_its_share_of_what_saturates_the_product() -> None:
    patterns = response_time.plan(500.0, Namespace(quick=True, time=0.1, load=0.8), seed=0)
    assert [pattern.tenants for pattern in patterns[:-1]] == [20, 2000, 6000, 9000]
    crowd = patterns[-1]
    assert crowd.tenants == 48
    assert len(crowd.arrivals) == 48 * 50
    plateau = ((crowd.arrivals.at > 2) & (crowd.arrivals.at < 5)).sum() / 3
    assert plateau == pytest.approx(0.8 * 500, rel=0.02)
