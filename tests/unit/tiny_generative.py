"""Tiny generative models in an artifact root: a random decoder and LoRAs of two tenants."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot
from inference.queueing.messages import ModelRef
from tests.unit.inference.generation.decoder_world import random_lora
from tests.unit.tiny_decoder import tiny_decoder_folder
from tests.unit.tiny_world import artifact_folder, checksums, place

MODELS = (("acme", "facts", 1), ("acme", "letters", 2), ("globex", "facts", 3))
"""Tenant, model, and the number of its random LoRA."""


@dataclass(frozen=True)
class GenerativeWorld:
    """A decoder root in an artifact root, and the models that stand on it."""

    artifact_root: Path
    decoder: Decoder
    root: str
    models: tuple[ModelRef, ...]

    def folder(self, kind: str, digest: str) -> Path:
        return artifact_folder(self.artifact_root, kind, digest)

    def manifest_parts(self) -> dict[str, Any]:
        """What the manifest says of them."""
        return {
            "decoders": {self.root: {"name": "writer", "files": checksums(self.folder("root", self.root))}},
            "generative": {
                f"{model.tenant}/{model.hplm}:{model.version}": {
                    "tenant": model.tenant,
                    "hplm": model.hplm,
                    "version": model.version,
                    "digest": model.digest,
                    "task": "generation",
                    "root": self.root,
                    "files": checksums(self.folder("hplm", model.digest)),
                }
                for model in self.models
            },
        }


def generative_world(artifact_root: Path) -> GenerativeWorld:
    """Build them all; to be published with `manifest_parts`."""
    scratch = artifact_root / ".incoming" / "generative"
    root = DecoderRoot.from_checkpoint(
        open_decoder_checkpoint(tiny_decoder_folder(scratch / "checkpoint")), name="writer"
    )
    root.save(scratch / "root")
    digest, decoder = place(artifact_root, "root", scratch / "root"), root.decoder()
    models = []
    for tenant, name, number in MODELS:
        folder = scratch / f"{tenant}-{name}"
        GenerativeHplm("generation", random_lora(decoder, number)).save(folder, root.config.architecture)
        models.append(ModelRef(tenant, name, 1, place(artifact_root, "hplm", folder)))
    return GenerativeWorld(artifact_root, decoder, digest, tuple(models))
