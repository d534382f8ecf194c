"""The inputs of the jobs of generative models: the decoder, its tokenizer and the training settings."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from inference.decoder.decoder import Decoder
from inference.decoder.root import DecoderRoot
from inference.errors import HplmError
from inference.text.generative_codec import GenerativeCodec
from inference.text.tasks import CHAT
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.models import Artifact
from versiontree.tree.services.settings_inheritance import settings_of
from workers.jobs.inputs import artifact_folder, dataset_file, job_settings
from workers.training.datasets import DatasetFiles
from workers.training.generative.fine_tune import GenerativeSettings
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.precision import configure_torch, decoder_precision


@dataclass(frozen=True, slots=True)
class GenerativeInputs:
    """What both jobs of a generative model start from."""

    decoder: Decoder
    tokenizer: GenerativeTokenizer
    settings: GenerativeSettings
    dataset: DatasetFiles
    task: str


def generative_inputs(job: Job, store: ArtifactStore, root: Artifact | None) -> GenerativeInputs:
    """Load the decoder, in its `decoder_precision`, on the installation's device.

    Raises HplmError: corrupt_artifact, unsupported_checkpoint (no token ends a text, or conversations for a
    root without a chat template).
    """
    folder = artifact_folder(store, root)
    loaded = DecoderRoot.load(folder)
    task = job.params["dataset"]["task"]
    if task == CHAT and not loaded.chat_template:
        raise HplmError(
            "unsupported_checkpoint", "This root has no chat template: train it on prompts with completions."
        )
    settings = _settings(job, loaded)
    asked = job_settings(job)
    device, name = asked["device"], decoder_precision(asked["device"], asked["precision"])
    precision = configure_torch(device=device, precision=name, seed=settings.seed)
    return GenerativeInputs(
        loaded.decoder(precision.device, precision.dtype),
        _tokenizer(folder, loaded, job.created_at),
        settings,
        DatasetFiles(
            train=dataset_file(job, "train"), dev=dataset_file(job, "dev"), test=dataset_file(job, "test")
        ),
        task,
    )


def _settings(job: Job, root: DecoderRoot) -> GenerativeSettings:
    """Those of the version: it is evaluated with the same numbers of prompts and tokens."""
    chosen: dict[str, Any] = dict(settings_of(job.version))
    return GenerativeSettings(lower_layers=root.config.lower_layers, **chosen)


def _tokenizer(folder: Path, root: DecoderRoot, now: datetime) -> GenerativeTokenizer:
    """The tokenizer of serving."""
    if not root.config.stop_ids:
        raise HplmError("unsupported_checkpoint", "This root has no end-of-text token.")
    codec = GenerativeCodec.of_root(folder)
    return GenerativeTokenizer(
        codec.prompts, codec.detokenizer, root.config.stop_ids, root.config.max_tokens, now
    )
