"""What the pages of versions say of a decoder root, and of the PET on it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from versiontree.tree.models import RootKind
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import LineageStep
from versiontree.tree.selectors.versions import as_mapping

FAMILIES: Final = {
    "llama": "LLaMA",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma3_text": "Gemma 3",
    "smollm3": "SmolLM3",
    "granite": "Granite",
    "phi3": "Phi-3",
    "gpt2": "GPT-2",
    "opt": "OPT",
}
NUMBERS: Final = (
    ("parameters", "Parameters"),
    ("layers", "Layers"),
    ("lower_layers", "Layers below the cut"),
    ("hidden", "Hidden size"),
    ("vocab", "Vocabulary"),
    ("max_tokens", "Context, in tokens"),
)


def decoder_facts(steps: Sequence[LineageStep]) -> list[tuple[str, str]]:
    """Return the facts of the decoder that a version is built on, and the layers that its PET changes.

    `steps` lead from the version to its root. Empty below an encoder, and until the root is converted.
    """
    version, root = steps[0].version, steps[-1].version
    report = as_mapping(root.metrics.get("convert"))
    if root.root.kind != RootKind.DECODER or not report:
        return []
    family = str(report.get("family", ""))
    facts = [("Family", FAMILIES.get(family, family))]
    facts += [(label, f"{report[name]:,}") for name, label in NUMBERS if isinstance(report.get(name), int)]
    if "chat_template" in report:
        facts.append(("Chat template", "yes" if report["chat_template"] else "no"))
    is_trained = version.kind == VersionKind.HPLM and not version.config.get("imported")
    return [*facts, *(_lora_layers(report) if is_trained else [])]


def _lora_layers(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the layers that fine-tuning changes: those above the cut."""
    layers, below = report.get("layers"), report.get("lower_layers")
    if not isinstance(layers, int) or not isinstance(below, int):
        return []
    return [("Trained layers", f"{below + 1:,} to {layers:,}")]
