"""What an answer tells in its headers, whatever the shape of its body: who gave it, and what it took."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from inference.number_format import format_number

MODEL: Final = "x-hmi-model"
DIGEST: Final = "x-hmi-digest"
HIT_RATIO: Final = "x-hmi-plot-hit-ratio"
TIMES: Final = "Server-Timing"

SAID: Final = {
    MODEL: "The version that answered: `tenant/model:version`.",
    DIGEST: "Its digest.",
    HIT_RATIO: "Of the fragments that were looked up, the share that the tables had whole; left out where"
    " there were none.",
    TIMES: "What took how many milliseconds, as `timings_ms` has it: `queue;dur=9.4, retrieval;dur=1.4`.",
}
IN_THE_SCHEMA: Final = [
    OpenApiParameter(name, location=OpenApiParameter.HEADER, description=said, response=[200])
    for name, said in SAID.items()
]


def answer_headers(answer: Mapping[str, Any]) -> dict[str, str]:
    """Those of an answer of `infer`, also of one that was kept."""
    model, ratio = answer["model"], answer["plot"].get("hit_ratio")
    told = {
        MODEL: f"{model['name']}:{model['version']}",
        DIGEST: model["digest"],
        TIMES: ", ".join(
            f"{stage};dur={format_number(spent)}" for stage, spent in answer["timings_ms"].items()
        ),
    }
    return told if ratio is None else told | {HIT_RATIO: str(ratio)}
