"""The word and the colour of a state. Those of jobs and versions come from the version tree's own tables."""

from dataclasses import dataclass

from inference.batches.models import BATCH_STYLE
from versiontree.jobs.models import JOB_STATE_COLOURS, JobState
from versiontree.tree.models.version import VERSION_STATE_COLOURS, VersionState

SKIPPED = "skipped"
"""The state of a job that was not run because the job before it failed."""
_HERE = {
    SKIPPED: ("Skipped", "neutral"),
    "active": ("Active", "success"),
    "expired": ("Expired", "warning"),
    "revoked": ("Revoked", "neutral"),
    "waiting": ("Waiting", "info"),
    "delivered": ("Delivered", "success"),
    "failing": ("Failing", "warning"),
    "off": ("Off", "neutral"),
    "loading": ("Loading", "info"),
    "draining": ("Draining", "warning"),
    "drained": ("Drained", "neutral"),
}


@dataclass(frozen=True, slots=True)
class Style:
    """A state's word and the name of its colour, which is a class in the style sheet."""

    label: str
    colour: str


STYLES: dict[str, Style] = {
    **{state.value: Style(label, colour) for state, (label, colour) in BATCH_STYLE.items()},
    **{state.value: Style(JobState(state).label, colour) for state, colour in JOB_STATE_COLOURS.items()},
    **{
        state.value: Style(VersionState(state).label, colour)
        for state, colour in VERSION_STATE_COLOURS.items()
    },
    **{state: Style(label, colour) for state, (label, colour) in _HERE.items()},
}


def style_of(state: str) -> Style:
    """The style of a state of a job, a version or an API key. Raises KeyError for one that nobody listed."""
    return STYLES[state]
