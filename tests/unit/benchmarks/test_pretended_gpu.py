"""What can be counted of the GPU's path without one."""

import pytest

from benchmarks import pretended_gpu
from inference.serving.device_ledger import DeviceLedger
from tests.gpus import needs_triton_interpreter

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = [pytest.mark.unit, needs_triton_interpreter]


@pytest.mark.slow
def test_copies_of_batches_and_steps_are_counted() -> None:
    report = pretended_gpu.measure(quick=True)
    assert not report.failures
    assert report.figures["budget_overflows"] == 0
    steps = [row for row in report.rows if row["what"] == pretended_gpu.STEP]
    assert {row["way"] for row in steps} == set(pretended_gpu.CHOICES)
    # The ids go there and the answers come back, at least.
    assert all(row["copies"] >= 2 and row["launches"] > 0 for row in report.rows)
    worst = max(row["copies"] for row in report.rows if row["what"] == pretended_gpu.BATCH)
    assert report.figures["copies_per_batch"] == worst
    assert report.figures["copies_per_step"] == max(row["copies"] for row in steps)


def test_ledgers_that_grant_more_than_there_is_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(map(pretended_gpu.overflow_bytes, range(50)))
    monkeypatch.setattr(DeviceLedger, "overflow_bytes", property(lambda ledger: sum(ledger.granted.values())))
    assert any(map(pretended_gpu.overflow_bytes, range(50)))
