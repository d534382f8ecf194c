"""Training rows whose label is likely wrong: a cross-validated head is sure of another one."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inference.cascade.confidence import probabilities
from inference.text.tasks import MULTILABEL
from workers.training.datasets import Example
from workers.training.linear_probe import choices
from workers.training.tasks.base import TaskKind

SURE: Final = 0.9
"""The calibrated probability of another label from which a row is suspect."""
MAX_SUSPECTS: Final = 200


def find_suspects(
    kind: TaskKind,
    examples: Sequence[Example],
    held_out: npt.NDArray[np.float32],
    targets: npt.NDArray[np.float32],
    owners: npt.NDArray[np.int64],
    words: npt.NDArray[np.int64] | None = None,
) -> list[dict[str, Any]]:
    """{row, label, suggested, confidence} of each suspect example, the surest first; of a tagged one also the
    index of the `token` with the surest other tag. Several labels are joined by commas.

    held_out [N, C]: calibrated outputs by heads that were not fitted on the example. targets [N, C]: zeros
    and ones. owners [N]: the index of the example. words [N]: the index of the word in it.
    """
    several = kind.name == MULTILABEL
    logits, expected = choices(held_out, targets, several=several)
    found = probabilities("classes", logits, 1.0)
    best, sure = found.argmax(axis=1), found.max(axis=1)
    suspects: dict[int, dict[str, Any]] = {}
    places = np.flatnonzero((best != expected) & (sure >= SURE))
    for place in places[np.argsort(-sure[places], kind="stable")].tolist():
        row, column = divmod(place, targets.shape[1]) if several else (place, 0)
        owner = int(owners[row])
        if owner in suspects:
            continue
        if several:
            own = set(examples[owner].labels)
            label, suggested = own, own ^ {kind.labels[column]}
        else:
            label, suggested = {kind.labels[expected[place]]}, {kind.labels[best[place]]}
        suspects[owner] = {
            "row": owner,
            "label": ", ".join(sorted(label)),
            "suggested": ", ".join(sorted(suggested)),
            "confidence": round(float(sure[place]), 4),
        }
        if words is not None:
            suspects[owner]["token"] = int(words[row])
    return list(suspects.values())[:MAX_SUSPECTS]
