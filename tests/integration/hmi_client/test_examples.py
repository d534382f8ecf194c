"""Every example of docs/examples.md is run, against a real product: each way as one session of a tenant."""

import os
import re
import subprocess
import sys
from pathlib import Path

from pytest_django import Settings

from tenants.accounts.services.tenants import tenant_create
from tests.integration.hmi_client.conftest import Product, key_of
from tests.integration.jobs.world import corpus_text, mood_rows

CHECKOUT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
SAID = {
    "curl": (
        "The domain's first job is cancelled.",
        '"kind":"webhook.test"',
        "ready\n",
        '"name":"tickets-again"',
    ),
    "command": ("tiny/notes", "further_pretrain"),
    "python": ("notes 1 building", "cancelled cancelled"),
}
"""What each way says, among other things."""


WITHOUT_QUICK = {
    r'-d "{\"name\": \"tickets\", ': r'-d "{\"quick\": false, \"name\": \"tickets\", ',
    '{"from_version": 3,': '{"from_version": 2,',
    'create_model("tickets", ': 'create_model("tickets", quick=False, ',
    "hmi train tickets --data tickets --wait": "hmi train tickets --data tickets --wait --no-quick",
}
"""A trained version of a tiny root may be worse than its quick one. Then it is not the default, and there is
nothing to roll back."""


def way_of(language: str, block: str) -> str:
    """Which of the three a block belongs to."""
    if language == "python":
        return "python"
    return "command" if re.search(r"\bhmi [a-z]+ ", block) else "curl"


def scripts() -> dict[str, str]:
    """The blocks of each way, one after the other."""
    found: dict[str, list[str]] = {way: [] for way in SAID}
    for language, block in BLOCK.findall((CHECKOUT / "docs/examples.md").read_text(encoding="utf-8")):
        way = way_of(language, block)
        for shown, run in WITHOUT_QUICK.items():
            block = block.replace(shown, run)
        found[way].append(block)
    assert min(map(len, found.values())) >= 6
    return {way: "\n".join(blocks) for way, blocks in found.items()}


def test_every_example_does_what_it_shows(product: Product, tmp_path: Path, settings: Settings) -> None:
    settings.HMI_CORPUS_MIN_WORDS = 100
    rows = "".join(f"{row['text']},{row['label']}\n" for row in mood_rows())
    for way, script in scripts().items():
        folder = tmp_path / way
        folder.mkdir()
        (folder / "tickets.csv").write_text("text,label\n" + rows)
        (folder / "notes.txt").write_text(corpus_text())
        tenant = tenant_create(slug=way, name=way, owner=product.world.owner)
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            "HMI_URL": product.url,
            "HMI_API_KEY": key_of(tenant, "infer", "manage"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        shell = [sys.executable, "-"] if way == "python" else ["bash", "-eu", "-o", "pipefail", "-s"]
        ran = subprocess.run(
            shell, input=script, cwd=folder, env=env, capture_output=True, text=True, timeout=800, check=False
        )
        assert ran.returncode == 0, f"{way}:\n{ran.stdout}\n{ran.stderr}"
        for line in SAID[way]:
            assert line in ran.stdout + ran.stderr, f"{way}: {line}:\n{ran.stdout}"
