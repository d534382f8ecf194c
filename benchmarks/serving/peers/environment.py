"""The virtual environments that the peers run in, with versions of their own: built once, kept with the runs.

`adapters` wants an older transformers than ours; `peft` runs with that one as well, so that one environment
is enough for both. The FastAPI servers have another, with our transformers. PyTorch is the same as ours.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from benchmarks.result_cache import bench_dir, fingerprint
from benchmarks.serving.peers.errors import PeerUnavailable

PACKAGES = ("adapters==1.3.0", "peft==0.21.2", "transformers==4.57.6")
HTTP_PACKAGES = (
    "fastapi==0.165.0",
    "uvicorn==0.54.0",
    "uvloop==0.23.0",
    "httptools==0.9.0",
    "peft==0.21.2",
    f"transformers=={version('transformers')}",
)
"""Of the FastAPI servers; with uvloop and httptools, which uvicorn takes where they are installed."""
TORCH_WHEELS = "https://download.pytorch.org/whl"
INSTALL_S = 1800
READY = "ready"
Command = list[str]


def peers_python(
    console: Console | None = None, *, packages: Sequence[str] | None = None, with_torch: bool = True
) -> Path:
    """The Python of the environment with these packages (default: PACKAGES) and, unless it is left out, our
    own PyTorch; it is built where it is not there yet.

    Raises PeerUnavailable when it cannot be built: without a network, say.
    """
    wanted = [*(_torch() if with_torch else ()), *(PACKAGES if packages is None else packages)]
    key = {"python": sys.version_info[:3], "packages": wanted}
    folder = bench_dir() / "peers" / fingerprint(key)
    python = folder / "bin" / "python"
    with _alone(folder.with_suffix(".lock")):
        if not (folder / READY).is_file():
            if console:
                console.print(f"[dim]building the peers' environment: {', '.join(wanted)}[/]")
            _build(folder, python, wanted)
            (folder / READY).write_text("\n".join(wanted), encoding="utf-8")
    return python


def _torch() -> list[str]:
    """Our own PyTorch and NumPy."""
    return [f"{name}=={version(name)}" for name in ("torch", "numpy")]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One builder at a time."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, python: Path, wanted: Sequence[str]) -> None:
    """In the first way that works; PeerUnavailable with what each said when none does."""
    complaints = []
    imports = ", ".join(package.partition("==")[0].replace("-", "_") for package in wanted)
    for commands in _ways(folder, python, wanted):
        complaint = _first_complaint([*commands, [str(python), "-Ic", f"import {imports}"]])
        if complaint is None:
            return
        complaints.append(complaint)
    shutil.rmtree(folder, ignore_errors=True)
    raise PeerUnavailable(
        "The peers' environment could not be built, the benchmark goes on without them. "
        f"Wanted: {', '.join(wanted)}.\n" + "\n".join(complaints)
    )


def _ways(folder: Path, python: Path, wanted: Sequence[str]) -> Iterator[list[Command]]:
    """By uv where it is there; else, or where it fails, by pip, whose settings may know other sources. With
    PyTorch's own source only after that: where it is out of reach, pip asks it again for every package."""
    uv = shutil.which("uv")
    for source in _sources():
        if uv:
            yield [
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
                [uv, "pip", "install", "--quiet", "--python", str(python), *wanted, *source],
            ]
        yield [
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *wanted, *source],
        ]


def _sources() -> list[Command]:
    """Those of the person's settings; and, for builds for a kind of device (2.13.0+cpu), PyTorch's."""
    build = version("torch").partition("+")[2]
    return [[], *([["--find-links", f"{TORCH_WHEELS}/{build}/torch/"]] if build else [])]


def _first_complaint(commands: Sequence[Command]) -> str | None:
    """The last lines of the first command that fails."""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"  {error}"
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            name = " ".join([Path(command[0]).name, *command[1:3]])
            return "\n".join([f"  {name}:", *(f"    {line}" for line in said[-3:])])
    return None
