"""Which families there are, and why the others are refused."""

from collections.abc import Mapping
from typing import Any, Final

from inference.hplm.errors import HplmError
from inference.hplm.families.base import Family
from inference.hplm.families.bert import BERT
from inference.hplm.families.distilbert import DISTILBERT
from inference.hplm.families.electra import ELECTRA
from inference.hplm.families.roberta import ROBERTA, XLM_ROBERTA

FAMILIES: Final = {family.name: family for family in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, ELECTRA)}
REASONS: Final = {
    "deberta": "each of its layers weighs a token's content against the other's distance, with position "
    "embeddings of its own, which the layers served here do not compute",
}
REASONS_OF_KIN: Final = {"deberta-v2": "deberta"}


def family_of(raw: Mapping[str, Any]) -> Family:
    """The family of a config.json; HplmError(unsupported_checkpoint) with the reason when it has none."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES[kind]
    reason = REASONS.get(REASONS_OF_KIN.get(str(kind), str(kind)))
    raise HplmError(
        "unsupported_checkpoint",
        f"model type {kind!r} is not supported: {reason}"
        if reason
        else f"model type {kind!r} is not supported; {', '.join(FAMILIES)} are",
    )
