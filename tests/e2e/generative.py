"""Generative models of the world, with tiny random weights that an inference worker serves."""

import re
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot
from tenants.datasets.services.datasets import dataset_upload
from tests.e2e.world import ArtifactFiles, World, versions_finish
from tests.integration.tenants.content import stream
from tests.unit.inference.generation.decoder_world import random_lora
from tests.unit.tenants.files import jsonl
from tests.unit.tiny_decoder import tiny_decoder_folder
from versiontree.jobs.models import Job
from versiontree.tree.models import RootKind
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register

CONTEXT = 40_000
"""So many tokens take a tiny decoder minutes."""
COPIED = {
    "family": "llama",
    "layers": 3,
    "lower_layers": 1,
    "hidden": 64,
    "vocab": 261,
    "max_tokens": CONTEXT,
    "parameters": 92_000,
    "chat_template": True,
}
MODELS = (("writer", "chat"), ("poet", "chat"), ("continuer", "generation"))


class DecoderFiles:
    """Fills the folders of artifacts with a decoder and LoRAs."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    @cached_property
    def root(self) -> DecoderRoot:
        """The root, of a random checkpoint."""
        folder = tiny_decoder_folder(self._scratch, max_position_embeddings=CONTEXT)
        return DecoderRoot.from_checkpoint(open_decoder_checkpoint(folder))

    def __call__(self, role: str, job: Job, folder: Path) -> None:
        """Write what a job makes in this role."""
        if role == "root":
            self.root.save(folder)
            return
        task, decoder = job.version.config["dataset"]["task"], self.root.decoder()
        lora = random_lora(decoder, len(job.version.name))
        GenerativeHplm(task, lora).save(folder, self.root.config.architecture)


def furnish_generative(world: World, files: ArtifactFiles) -> None:
    """Two models for chat and one for generation, on a decoder, as their jobs would have left them."""
    decoder = root_register(name="smol", kind=RootKind.DECODER, source="acme/smol", actor=world.admin)
    versions_finish(decoder, {"convert": COPIED}, files=files)
    decoder.refresh_from_db()
    for name, task in MODELS:
        rows = {"train": (f"{name}.jsonl", stream(jsonl(_row(task, number) for number in range(40))))}
        dataset = dataset_upload(
            tenant=world.tenant, name=name.title(), task=task, files=rows, actor=world.owner
        )
        made = hplm_create(tenant=world.tenant, name=name, parent=decoder, dataset=dataset, actor=world.owner)
        versions_finish(made, files=files)


def generative_pages(world: World) -> dict[str, Callable[[Page], object]]:
    """Each page of a generative model by its name, with the way to it."""
    tenant = f"/t/{world.tenant.slug}"
    addresses = {
        "generative-hplm": "models/writer/",
        "generative-version": "models/writer/versions/1/",
        "decoder-version": "roots/smol/versions/1/",
        "chat-empty": "playground/?model=writer@default",
    }
    return {
        **{name: partial(_open, f"{tenant}/{address}") for name, address in addresses.items()},
        "chat": partial(_chat, f"{tenant}/playground/?model=writer@default&model=poet@default"),
    }


def _open(address: str, page: Page) -> None:
    page.goto(address)


def _chat(address: str, page: Page) -> None:
    """Ask two models, and wait for both answers."""
    page.goto(address)
    page.locator("#ask summary", has_text="Settings").click()
    page.get_by_label("Max tokens").fill("40")
    page.get_by_label("Message").fill("What is 7?")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text(re.compile(r"\d+ tokens? ·"))).to_have_count(2)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def _row(task: str, number: int) -> dict[str, Any]:
    question, answer = f"What is {number}?", f"A number, {number}."
    if task == "generation":
        return {"prompt": question, "completion": answer}
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
