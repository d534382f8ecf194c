"""What is told of how long requests waited."""

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks.serving.arrivals import burst, steady
from benchmarks.serving.waits import BURST, PRODUCT, Found, Pattern, Run

pytestmark = pytest.mark.unit
CALM = Pattern("steady", 0.5, 4, steady(4, every_s=1.0, seconds=5.0, seed=0))
CROWD = Pattern(BURST, 0.9, 4, burst(4, launching_s=1.0, requests=5, apart_s=1.0))
ADAPTER, DEDICATED, SHARED = "hBERT-adapter", "dedicated", "shared"
DEADLINE_S = 10.0


def found(product: float, adapter: float, dedicated: float, shared: float) -> Found:
    """Every request of the burst waited as long as is said of its scheme, in two repeats; before it a tenth
    of a second."""
    seconds = {PRODUCT: product, ADAPTER: adapter, DEDICATED: dedicated, SHARED: shared}
    calm = [Run(CALM, scheme, np.full(20, 0.1)) for scheme in seconds]
    crowd = [Run(CROWD, scheme, np.full(20, waited)) for scheme, waited in seconds.items()]
    return Found([*calm, *crowd, *calm, *crowd], DEADLINE_S)


def test_the_ratio_is_to_the_best_scheme_that_gives_every_tenant_a_model() -> None:
    figures = found(product=0.5, adapter=4.0, dedicated=8.0, shared=0.1).figures()
    assert figures["p99_ratio_burst"] == 8.0
    assert figures["missed"] == 0.0


def test_ratios_are_taken_within_a_repeat() -> None:
    times = [(0.5, 4.0), (1.0, 5.0), (1.0, 20.0)]
    runs = [
        run
        for own, other in times
        for run in (
            Run(CROWD, PRODUCT, np.full(20, own)),
            Run(CROWD, ADAPTER, np.full(20, other)),
            Run(CROWD, DEDICATED, np.full(20, 30.0)),
        )
    ]
    figures = Found(runs, 100.0).figures()
    assert figures["p99_ratio_burst"] == 8.0
    assert (figures["p99_ratio_burst_least"], figures["p99_ratio_burst_greatest"]) == (5.0, 20.0)


def test_a_request_that_is_missed_has_waited_as_long_as_anybody_may() -> None:
    heard = found(product=0.5, adapter=np.inf, dedicated=np.inf, shared=0.1)
    assert heard.figures()["p99_ratio_burst"] == 20.0
    assert heard.ms(CROWD.name, ADAPTER, 50) == [1000 * DEADLINE_S] * 2


def test_what_the_product_misses_is_a_share_of_all_that_it_was_asked() -> None:
    assert found(product=np.inf, adapter=1.0, dedicated=1.0, shared=1.0).figures()["missed"] == 0.5


def test_the_table_has_a_row_for_every_pattern_and_scheme() -> None:
    rows = found(product=0.5, adapter=np.inf, dedicated=8.0, shared=0.1).table()
    assert [(row["asked, load"], row["scheme"]) for row in rows[4:6]] == [
        ("burst, 0.9", PRODUCT),
        ("burst, 0.9", ADAPTER),
    ]
    assert len(rows) == 8
    assert (rows[5]["p50 ms"], rows[5]["missed %"], rows[5]["requests"]) == (10_000, 100, 40)
    assert rows[4]["p99 ms"] == rows[4]["p99 least"] == rows[4]["p99 greatest"] == 500


def test_the_pictures_have_a_line_for_every_scheme(tmp_path: Path) -> None:
    found(product=0.5, adapter=np.inf, dedicated=8.0, shared=0.1).draw(tmp_path / "new")
    for name in ("tenants", "burst"):
        picture = ET.parse(tmp_path / "new" / f"response_time_{name}.svg").getroot()  # noqa: S314
        lines = [part for part in picture.iter() if part.tag.endswith("polyline")]
        assert len(lines) == 4
        texts = {part.text for part in picture.iter() if part.tag.endswith("text")}
        assert {PRODUCT, ADAPTER, DEDICATED, SHARED} <= texts
