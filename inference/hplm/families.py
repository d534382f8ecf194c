"""Supported model families: BERT, RoBERTa, XLM-R, DistilBERT, ELECTRA, MPNet."""

from collections.abc import Mapping
from typing import Any, Final

from inference.errors import HplmError
from inference.hplm.bert_families import BERT, DISTILBERT, ELECTRA, MPNET, ROBERTA, XLM_ROBERTA
from inference.hplm.checkpoint_config import config_int as config_int  # for the decoders' families
from inference.hplm.family import Family

FAMILIES: Final = {family.name: family for family in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, ELECTRA, MPNET)}
UNSUPPORTED_REASONS: Final = {
    "deberta": "its disentangled attention uses relative positions in each layer",
}
UNSUPPORTED_ALIASES: Final = {"deberta-v2": "deberta"}


def family_for(raw: Mapping[str, Any]) -> Family:
    """The family of a config.json. Raises HplmError(unsupported_checkpoint) for other families."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES[kind]
    reason = UNSUPPORTED_REASONS.get(UNSUPPORTED_ALIASES.get(str(kind), str(kind)))
    raise HplmError(
        "unsupported_checkpoint",
        f"model type {kind!r} is not supported: {reason}"
        if reason
        else f"model type {kind!r} is not supported; {', '.join(FAMILIES)} are",
    )
