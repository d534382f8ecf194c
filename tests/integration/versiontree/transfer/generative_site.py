"""A site with a tiny decoder root and a generative model of acme on it, and what its worker generates."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot
from inference.engine.rows import ModelIdentity
from inference.generation.requests import GenerationRequest, SamplingParams
from inference.manifest import ManifestWatcher
from inference.serving.decoder_catalogue import DecoderCatalogue
from tenants.accounts.models import User
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.transfer.site import branch_of, build, store
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.unit.inference.generation.decoder_world import random_lora
from tests.unit.tiny_decoder import EOS, tiny_decoder_folder
from versiontree.tree.models import RootKind, Version
from versiontree.tree.services.roots import root_register
from versiontree.tree.serving_manifest import manifest_publish

PROMPT = tuple(b"the name of the river is")
NUMBER = 1
"""That of the model's random LoRA. It changes layers from the cut on."""
TOKENS = 12
COPIED: dict[str, Any] = {
    "family": "llama", "layers": 3, "lower_layers": 1, "hidden": 64, "vocab": 261, "max_tokens": 128,
    "parameters": 100_000, "chat_template": True,
}  # fmt: skip
SAMPLES = [{"prompt": "A", "answer": "B", "reference": "C"}]
MEASURED: dict[str, Any] = {
    "fine_tune": {
        "epochs": [{"epoch": 1, "loss": 2.5, "dev_loss": 2.25}],
        "best_epoch": 1,
        "dev": {"loss": 2.25},
        "test": {"metric": "rouge_l", "value": 0.5, "bleu": 0.25, "answers": 2},
        "settings": {"seed": 0, "lora": 4},
        "samples": SAMPLES,
    },
    "evaluate": {"metric": "rouge_l", "value": 0.5, "majority_baseline": 0.1, "rows": 2, "samples": SAMPLES},
}


@dataclass(frozen=True, slots=True)
class GenerativeSite:
    """acme's model `hplm` stands on the decoder `root`; globex has nothing."""

    acme: TenantFixture
    globex: TenantFixture
    staff: User
    root: Version
    hplm: Version
    decoder: Decoder


def make_generative_site(scratch: Path, number: int = NUMBER) -> GenerativeSite:
    """Everything through the product's own services. number: of the random LoRA."""
    acme, globex = tree_factory.create_tenant("acme"), tree_factory.create_tenant("globex")
    staff = User.objects.create_user("boss", is_staff=True, is_superuser=True)
    source = tiny_decoder_folder(scratch / "published")
    loaded = DecoderRoot.from_checkpoint(open_decoder_checkpoint(source), lower_layers=1, name="smol")
    loaded.save(scratch / "root")
    root = build(
        root_register(
            name="smol",
            kind=RootKind.DECODER,
            source=str(source),
            lower_layers=1,
            license="apache-2.0",
            source_url="https://huggingface.co/acme/smol",
            actor=staff,
        ),
        {"root": scratch / "root"},
        {"convert": COPIED},
    )
    decoder = loaded.decoder()
    GenerativeHplm("generation", random_lora(decoder, number)).save(scratch / "hplm", decoder.architecture)
    planted = tree_factory.new_writer(root, acme)
    hplm = build(planted, {"hplm": scratch / "hplm"}, MEASURED)
    return GenerativeSite(acme, globex, staff, root, hplm, decoder)


def completion(version: Version) -> tuple[int, ...]:
    """What a worker that follows the published manifest generates greedily for PROMPT."""
    manifest_publish()
    catalogue = DecoderCatalogue(
        ManifestWatcher(store().root / "manifest.json"),
        device=torch.device("cpu"),
        dtype=torch.float32,
        cache_bytes=2**22,
    )
    catalogue.refresh()
    assert version.tenant is not None
    model = ModelIdentity(version.tenant.slug, version.name, version.number, version.digest)
    engine = catalogue.root_of(model, branch_of(version)[-1].digest).engine
    sampling = SamplingParams(max_tokens=TOKENS, temperature=0.0, stop_tokens=frozenset({EOS}))
    engine.add(GenerationRequest(id="one", model=model, prompt=PROMPT, sampling=sampling))
    events = []
    while not engine.is_idle:
        events += engine.step()
    assert events[-1].error is None, events[-1]
    return tuple(event.token for event in events if event.token is not None)
