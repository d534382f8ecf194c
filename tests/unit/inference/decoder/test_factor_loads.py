"""The compiled kernels load the factors of LoRAs by many numbers at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")


@pytest.mark.parametrize("capability", [75, 80])
def test_no_kernel_loads_half_precision_number_by_number(capability: int, tmp_path: Path) -> None:
    """Neither factors nor inputs, whether a GPU copies them to shared memory itself (from A100 on) or not."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    subprocess.run(
        [sys.executable, "-m", "tests.unit.inference.decoder.compile_kernels", str(capability)],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    loads = [set(re.findall(r"ld\.global\.[.\w]+", path.read_text())) for path in tmp_path.rglob("*.ptx")]
    assert len(loads) >= 6  # shrink and expand by dtype
    assert not any("ld.global.b16" in found for found in loads), loads
