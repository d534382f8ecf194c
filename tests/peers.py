"""Programs of others that talk to the product, in a virtual environment of their own: made once, kept where
benchmarks keep theirs."""

import fcntl
import subprocess
import sys
from pathlib import Path

from benchmarks.result_cache import bench_dir, fingerprint
from tests.skips import skip_unless_ci

INSTALL_S = 800
READY = "ready"
REQUIREMENTS = Path(__file__).with_suffix(".txt")


def peer_python() -> Path:
    """The Python of an environment with the peers. Without a way to them the test is skipped; in CI it
    fails."""
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    folder = bench_dir() / "peers" / fingerprint({"python": sys.version_info[:3], "packages": wanted})
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / READY).is_file():
            make_environment(folder, "--retries", "10", "-r", str(REQUIREMENTS))
            (folder / READY).write_text(wanted, encoding="utf-8")
    return python


def make_environment(folder: Path, *wanted: str) -> None:
    """Make a virtual environment with the packages, by the pip of this one; failures as in `peer_python`."""
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)])
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    _run([*pip, "install", "--quiet", "--no-compile", *wanted])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        skip_unless_ci(f"{' '.join(command[:4])}: {(done.stderr or done.stdout)[-300:]}")
