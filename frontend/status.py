"""Labels and colours of states. Those of jobs, versions and batches come from their models."""

from dataclasses import dataclass

from inference.batches.models import BATCH_STYLE
from versiontree.jobs.models import JOB_STATE_COLOURS, JobState
from versiontree.tree.models.version import VERSION_STATE_COLOURS, VersionState

SKIPPED = "skipped"
"""The state of a job that did not run because the job before it failed."""
RETRYING = "retrying"
"""The state of a delivery that failed and is tried again."""
_OTHER_STATES = {
    SKIPPED: ("Skipped", "neutral"),
    "active": ("Active", "success"),
    "expired": ("Expired", "warning"),
    "revoked": ("Revoked", "neutral"),
    "answered": ("Answered", "success"),
    "refused": ("Refused", "warning"),
    "waiting": ("Queued", "neutral"),
    "pending": ("Pending", "info"),
    "delivered": ("Delivered", "success"),
    "failing": ("Failing", "warning"),
    RETRYING: ("Retrying", "warning"),
    "off": ("Disabled", "neutral"),
    "loading": ("Loading", "info"),
    "draining": ("Draining", "warning"),
    "drained": ("Drained", "neutral"),
}


@dataclass(frozen=True, slots=True)
class Style:
    """The label of a state, and its colour, which is a CSS class."""

    label: str
    colour: str


STYLES: dict[str, Style] = {
    **{str(state): Style(label, colour) for state, (label, colour) in BATCH_STYLE.items()},
    **{state.value: Style(JobState(state).label, colour) for state, colour in JOB_STATE_COLOURS.items()},
    **{
        state.value: Style(VersionState(state).label, colour)
        for state, colour in VERSION_STATE_COLOURS.items()
    },
    **{state: Style(label, colour) for state, (label, colour) in _OTHER_STATES.items()},
}


def style_of(state: str) -> Style:
    """Return the style of a state. Raises KeyError for an unknown state."""
    return STYLES[state]
