"""The virtual environments that the peers run in, with versions of their own: built once, kept with the runs.

`adapters` wants an older transformers than ours; `peft` runs with that one as well, so that one environment
is enough for both. The FastAPI servers have another, with our transformers. What an environment has no
version of itself, PyTorch above all, it takes from ours.
"""

import fcntl
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from benchmarks.result_cache import bench_dir, fingerprint

OURS = ("torch", "numpy", "transformers")
PACKAGES = ("adapters==1.3.0", "peft==0.21.2", "transformers==4.57.6")
HTTP_PACKAGES = (
    "fastapi==0.165.0",
    "uvicorn==0.54.0",
    "uvloop==0.23.0",
    "httptools==0.9.0",
    "peft==0.21.2",
)
"""Of the FastAPI servers; with uvloop and httptools, which uvicorn takes where they are installed."""
INSTALL_S = 1800
READY = "ready"


class PeerUnavailable(Exception):
    """The peer cannot be run on this machine; the benchmark goes on without it."""


class PeerFailed(Exception):
    """The peer's program refused, broke off, or did not answer in time."""


def peers_python(console: Console | None = None, *, packages: Sequence[str] | None = None) -> Path:
    """The Python of the environment with these packages (default: PACKAGES) and ours; it is built where it is
    not there yet.

    Raises PeerUnavailable when it cannot be built: without a network, say.
    """
    packages = PACKAGES if packages is None else packages
    ours = {name: version(name) for name in OURS}
    key = {"python": sys.version_info[:3], "packages": packages, "ours": [sys.prefix, ours]}
    folder = bench_dir() / "peers" / fingerprint(key)
    python = folder / "bin" / "python"
    with _alone(folder.with_suffix(".lock")):
        if not (folder / READY).is_file():
            if console:
                console.print(f"[dim]building the peers' environment: {', '.join(packages)}[/]")
            _build(folder, python, packages)
            (folder / READY).write_text("\n".join(packages), encoding="utf-8")
    return python


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One builder at a time."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, python: Path, packages: Sequence[str]) -> None:
    """PeerUnavailable with what the command said that failed."""
    imports = ", ".join(package.partition("==")[0].replace("-", "_") for package in packages)
    try:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        [own] = folder.glob("lib/python*/site-packages")
        (own / "ours.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        # Python compiles what a peer imports, when it does, which is little of what is installed.
        _run(str(python), "-m", "pip", "install", "--quiet", "--no-compile", *packages)
        _run(str(python), "-Ic", f"import {imports}")
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise PeerUnavailable(
            "The peers' environment could not be built, the benchmark goes on without them. "
            f"Wanted: {', '.join(packages)}.\n{_said(error)}"
        ) from error


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=True)


def _said(error: Exception) -> str:
    """The last lines of a command that failed."""
    if not isinstance(error, subprocess.CalledProcessError):
        return str(error)
    said = (error.stderr or error.stdout).strip().splitlines()
    return "\n".join([f"  {' '.join(error.cmd[:3])}:", *(f"    {line}" for line in said[-3:])])
