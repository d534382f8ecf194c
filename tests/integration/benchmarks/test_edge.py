"""What is served for the benchmark over HTTP, and the benchmark itself."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.serving.over_http import site
from benchmarks.serving.over_http.clients import Call
from benchmarks.serving.over_http.engine import Engine
from benchmarks.serving.over_http.made import RandomModels
from benchmarks.serving.real_texts import RealTexts
from benchmarks.serving.world import Encoder
from inference.engine.rows import Answered
from tests.integration.launcher.site import CHECKOUT, clean_environment
from versiontree.tree.serving_manifest import manifest_publish

pytestmark = pytest.mark.thorough

INPUTS = 6
SMALL = ("--quick", "--repeats", "1", "--tenants", "2", "--clients", "4")


@pytest.fixture
def calls(db: None, artifact_root: Path, upload_root: Path, tmp_path: Path) -> list[Call]:
    """Of three tenants, whose models the manifest names."""
    texts = RealTexts.collect().read_with(site.tokenizer_file())
    scratch, tiny = tmp_path / "scratch", Encoder("tiny", 2, 16, 2, 32)
    models = RandomModels(scratch, tiny, "adapter-64", texts, site.tokenizer_file())
    found = site.fill(scratch, models, texts, 3)
    manifest_publish()
    return [replace(call, inputs=texts.draw(INPUTS)) for call in found]


@pytest.fixture
def engine(calls: list[Call], artifact_root: Path) -> Iterator[Engine]:
    """What an inference worker has."""
    engine = Engine(artifact_root)
    yield engine
    engine.close()


def test_the_calls_that_come_together_share_batches_evenly(engine: Engine, calls: list[Call]) -> None:
    batches = engine.batches(calls, mixed=3)
    assert [len(batch) for batch in batches] == [INPUTS] * 3
    for batch in batches:
        assert sorted(row.model.tenant for row in batch) == [f"tenant-{n}" for n in (0, 0, 1, 1, 2, 2)]


def test_every_row_is_answered_by_the_tenants_own_hplm(engine: Engine, calls: list[Call]) -> None:
    (rows,) = engine.batches(calls[1:2], mixed=1)
    (executor,) = engine.executors
    outcomes = executor.step(rows)
    assert [type(outcome) for outcome in outcomes] == [Answered] * INPUTS
    assert {outcome.used.tenant for outcome in outcomes if isinstance(outcome, Answered)} == {"tenant-1"}
    assert engine.seconds([rows]) > 0


def test_the_whole_product_is_started_called_and_stopped(tmp_path: Path) -> None:
    file = tmp_path / "edge.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.product.edge", *SMALL, "--json", str(file)],
        cwd=CHECKOUT,
        env={**clean_environment(), "HMI_BENCH_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())["figures"]
    assert figures["failed"] == 0
    assert figures["http_share_32"] > 0
    assert figures["batch_share"] > 0
    assert figures["cpu_ms_per_call_1"] > 0
    assert list(tmp_path.iterdir()) == [file]
