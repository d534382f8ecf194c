"""Supported model families, by the `model_type` of a config.json."""

from collections.abc import Mapping
from typing import Any, Final

from inference.errors import HplmError
from inference.hplm.bert_families import BERT, DISTILBERT, ELECTRA, MPNET, ROBERTA, XLM_ROBERTA
from inference.hplm.deberta_family import DEBERTA_V2
from inference.hplm.family import Family
from inference.hplm.rotary_families import GTE, MODERNBERT, NOMIC_BERT

FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family
    for family in (
        *(BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, ELECTRA),
        *(MPNET, MODERNBERT, DEBERTA_V2, NOMIC_BERT, GTE),
    )
}
UNSUPPORTED_REASONS: Final = {
    "deberta": "its first version fuses the maps of its attention; deberta-v2 is supported, which v3 is, too",
}


def family_for(raw: Mapping[str, Any]) -> Family:
    """The family of a config.json. Raises HplmError(unsupported_checkpoint) for other families."""
    kind = raw.get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES[kind]
    reason = UNSUPPORTED_REASONS.get(str(kind))
    raise HplmError(
        "unsupported_checkpoint",
        f"model type {kind!r} is not supported: {reason}"
        if reason
        else f"model type {kind!r} is not supported; {', '.join(FAMILIES)} are",
    )
