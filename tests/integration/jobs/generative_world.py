"""A tiny decoder root and a generative model below it, put in place as their jobs would have done."""

from pathlib import Path

from django.db import transaction

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot
from tenants.base.scope import platform_scope
from tenants.datasets.services.datasets import dataset_upload
from tests.integration.jobs.world import World, finish
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture, jobs_in_order
from tests.unit.inference.generation.decoder_world import random_lora
from tests.unit.tenants.files import jsonl
from tests.unit.tiny_decoder import tiny_decoder_folder
from versiontree.tree.models import RootKind, Version
from versiontree.tree.services.roots import root_register

WRITERS_LORA = 1
"""The number of the random LoRA of `writer`."""


@platform_scope()
def ready_writer(home: TenantFixture, scratch: Path) -> Version:
    """The model `writer` of the tenant, below the root `smol`: random, but real."""
    source = tiny_decoder_folder(scratch / "decoder")
    root = DecoderRoot.from_checkpoint(open_decoder_checkpoint(source))
    root.save(scratch / "decoder-root")
    # Within the transaction: a worker that is running is told of a job at its end, when the job is finished.
    with transaction.atomic():
        decoder = root_register(name="smol", kind=RootKind.DECODER, source=str(source), actor=None)
        (convert,) = jobs_in_order(decoder)
        finish(convert, {"root": scratch / "decoder-root"})
    decoder.refresh_from_db()
    model = GenerativeHplm("generation", random_lora(root.decoder(), WRITERS_LORA))
    model.save(scratch / "writer", root.config.architecture)
    rows = jsonl({"prompt": f"What is {number}?", "completion": f"It is {number}."} for number in range(40))
    texts = dataset_upload(
        tenant=home.tenant,
        name="writer-texts",
        task="generation",
        files={"train": ("writer.jsonl", stream(rows))},
        actor=home.developer,
    )
    with transaction.atomic():
        version = tree_factory.new_hplm(decoder, "writer", home, texts)
        fine_tune, evaluate = jobs_in_order(version)
        finish(fine_tune, {"hplm": scratch / "writer"})
        finish(evaluate, {})
    version.refresh_from_db()
    return version


def home_of(world: World) -> TenantFixture:
    """The world's tenant, whose owner has all roles."""
    people = (world.owner,) * 3
    return TenantFixture(world.tenant, *people, corpus=world.corpus, dataset=world.classes)
