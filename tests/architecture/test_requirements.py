"""The pinned packages fit every build of PyTorch."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
CHOSEN_BY_TORCH = re.compile(r"triton|nvidia-|cuda-|torch==.*\+")
FROZEN = """\
-e git+https://example.org/hmi
cuda-toolkit==13.0.2
nvidia-cublas==13.1.0.3
torch==2.13.0+cpu
triton==3.9.0
types-cachetools==7.0.0.20260713
"""


def test_neither_triton_nor_a_cuda_library_nor_a_build_of_torch_is_pinned(tmp_path: Path) -> None:
    pinned = (REQUIREMENTS / "constraints.txt").read_text().splitlines()
    assert [line for line in pinned if CHOSEN_BY_TORCH.match(line)] == []
    script = tmp_path / "requirements" / "freeze.sh"
    python = tmp_path / ".venv" / "bin" / "python"
    for file in (script, python):
        file.parent.mkdir(parents=True)
    shutil.copy(REQUIREMENTS / "freeze.sh", script)
    python.write_text(f"#!{sys.executable}\nprint({FROZEN!r}, end='')\n")
    python.chmod(0o755)
    subprocess.run(["/bin/sh", str(script)], check=True)
    assert (script.parent / "constraints.txt").read_text().splitlines() == [
        "torch==2.13.0",
        "types-cachetools==7.0.0.20260713",
    ]
