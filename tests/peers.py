"""Programs of others that talk to the product, each in a virtual environment of its own: made once, kept
where benchmarks keep theirs."""

import fcntl
import subprocess
import sys
from pathlib import Path

from benchmarks.result_cache import bench_dir, fingerprint
from tests.skips import skip_unless_ci

INSTALL_S = 800
READY = "ready"


def peer_python(requirements: Path) -> Path:
    """The Python of an environment with these packages. Without a way to them the test is skipped; in CI it
    fails."""
    wanted = requirements.read_text(encoding="utf-8")
    folder = bench_dir() / "peers" / fingerprint({"python": sys.version_info[:3], "packages": wanted})
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / READY).is_file():
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            install = ["install", "--quiet", "--no-compile", "--retries", "10", "-r", str(requirements)]
            _run([str(python), "-m", "pip", *install])
            (folder / READY).write_text(wanted, encoding="utf-8")
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        skip_unless_ci(f"{' '.join(command[:4])}: {(done.stderr or done.stdout)[-300:]}")
