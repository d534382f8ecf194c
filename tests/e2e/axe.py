"""axe-core, which finds what keeps people out of a page. It comes from the npm registry when a test first
asks for it, is verified, and stays in the cache of pytest."""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page

from tests.skips import skip_unless_ci

VERSION = "4.14.1"
INTEGRITY = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
REGISTRY = "https://registry.npmjs.org"
TIMEOUT_S = 120
GRAVE = ("serious", "critical")
OF_OTHERS = (".select2-container", ".help-tooltip", "a[href$='password/']", ".swagger-ui")
"""What Django's own widgets, django-unfold's and Swagger UI draw, and how."""

# Observers of sizes are told with the next frame, and what they change stands with the one after.
RUN = """async ([within, exclude, grave]) => {
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
    const left = axe._audit.rules.filter(({ impact }) => !grave.includes(impact));
    const found = await axe.run({ include: [within], exclude }, {
        resultTypes: ["violations"],
        preload: false,
        rules: Object.fromEntries(left.map(({ id }) => [id, { enabled: false }])),
    });
    return found.violations.map(({ id, impact, nodes }) =>
        ({ id, impact, places: nodes.map(({ html, target }) => `${target.join(" ")}: ${html}`) }));
}"""


def axe_source(cache: Path) -> str:
    """The script. Without a way to the registry the test is skipped; in CI it fails."""
    archive = cache / f"axe-core-{VERSION}.tgz"
    if not archive.is_file():
        try:
            _keep(_fetched(), archive)
        except (httpx.HTTPError, OSError, subprocess.SubprocessError) as error:
            skip_unless_ci(f"axe-core {VERSION} could not be fetched from the npm registry: {error}")
    with tarfile.open(fileobj=io.BytesIO(_verified(archive.read_bytes()))) as package:
        script = package.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(
    page: Page,
    source: str,
    *,
    within: str = ":root",
    without: tuple[str, ...] = (),
) -> list[str]:
    """The grave faults of the page as it is now, one line each. `within` and `without` are selectors of what
    is to be looked at and of what is not."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(source)  # as the browser's debugger does, so the page's own policy need not allow it
    asked = [within, list(without), list(GRAVE)]
    found: list[dict[str, Any]] = page.evaluate(RUN, asked)
    return [
        f"{fault['id']} ({fault['impact']}): {place[:300]}"
        for fault in found
        for place in fault["places"][:3]
    ]


def _fetched() -> bytes:
    """By npm where there is one, since it knows the registry and the way to it."""
    if not shutil.which("npm"):
        registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
        address = f"{registry}/axe-core/-/axe-core-{VERSION}.tgz"
        answer = httpx.get(address, follow_redirects=True, timeout=TIMEOUT_S).raise_for_status()
        return answer.content
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=TIMEOUT_S)
        return next(Path(folder).glob("*.tgz")).read_bytes()


def _keep(content: bytes, archive: Path) -> None:
    """Whole or not at all: several processes may fetch it at once."""
    with tempfile.NamedTemporaryFile(dir=archive.parent, delete=False) as file:
        file.write(_verified(content))
    Path(file.name).rename(archive)


def _verified(content: bytes) -> bytes:
    """Raises ValueError when it is not what was published."""
    found = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
    if found != INTEGRITY:
        raise ValueError(f"axe-core {VERSION} has the integrity {found}, not {INTEGRITY}.")
    return content
