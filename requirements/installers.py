"""Install packages by uv where it can be had, by pip otherwise. Stands on the standard library alone."""

import ast
import os
import shutil
import subprocess
from pathlib import Path

UV = "uv==0.13.9"
# pip's settings, and what says the same to uv. Values of several words repeat the option.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
}
FLAGS = {"no-index": "--no-index", "no-cache-dir": "--no-cache"}
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
# These say nothing of which packages are installed from where.
WITHOUT_EFFECT = {
    "break-system-packages",
    "cache-dir",
    "config-file",
    "disable-pip-version-check",
    "no-color",
    "no-input",
    "no-warn-script-location",
    "prefer-binary",
    "progress-bar",
    "quiet",
    "require-virtualenv",
    "retries",
    "root-user-action",
    "use-pep517",
    "verbose",
}
FALSE = ("", "0", "false", "no", "off")


class Installer:
    """Installs into the environment of a Python, by the person's pip settings."""

    def __init__(self, python: str) -> None:
        self._python = python
        translated = uv_settings(pip_settings(python))
        self._arguments, self._variables = translated or ([], {})
        self._uv = None if translated is None else self._find_uv()

    def install(self, *arguments: str) -> bool:
        """Install these requirements; whether it worked. What uv refuses, pip tries."""
        if self._uv is not None:
            command = [self._uv, "pip", "install", "--python", self._python, *self._arguments, *arguments]
            if subprocess.run(command, env={**os.environ, **self._variables}).returncode == 0:
                return True
            print("uv could not install them. pip tries.", flush=True)
            self._uv = None
        # Debian's older pip would build source packages in a way that no longer works.
        return self._pip("--use-pep517", "--prefer-binary", "--no-compile", *arguments)

    def _find_uv(self) -> str | None:
        """The person's uv, or one that pip gets from the package index as a wheel; None without."""
        own = Path(self._python).with_name("uv")
        found = shutil.which("uv") or shutil.which(own)
        if found is None and self._pip("--quiet", "--no-deps", "--only-binary=:all:", UV, quiet=True):
            found = str(own)
        return found

    def _pip(self, *arguments: str, quiet: bool = False) -> bool:
        output = subprocess.DEVNULL if quiet else None
        command = [self._python, "-m", "pip", "--disable-pip-version-check", "install", *arguments]
        return subprocess.run(command, stdout=output, stderr=output).returncode == 0


def pip_settings(python: str) -> dict[str, str]:
    """The person's settings of `pip install`, from files and variables, as pip itself reads them."""
    listed = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in sections:
            sections[section][option] = ast.literal_eval(value)
    return {**sections["global"], **sections["install"], **sections[":env:"]}


def uv_settings(settings: dict[str, str]) -> tuple[list[str], dict[str, str]] | None:
    """uv's arguments and variables that mean the same as these settings of pip; None if one has no such."""
    # Like pip, take the best version of all indexes: a build of torch may come from one of its own.
    arguments, variables = ["--index-strategy", "unsafe-best-match"], {}
    for name, value in settings.items():
        if name in OPTIONS:
            arguments += [part for each in value.split() for part in (OPTIONS[name], each)]
        elif name in FLAGS:
            arguments += [FLAGS[name]] if value.lower() not in FALSE else []
        elif name in VARIABLES:
            variables[VARIABLES[name]] = value
        elif name not in WITHOUT_EFFECT:
            return None
    return arguments, variables
