"""What the demo's generative model learns: a message to a shop's support becomes a JSON object."""

from typing import Final

from demo.datasets import TASKS, DemoTask
from demo.support_messages import support_messages

WRITING_TASKS: Final = (
    DemoTask(
        "hooli",
        "support-requests",
        "chat",
        False,
        "jsonl",
        support_messages,
        300,
        about="Turns a message to a shop into JSON: what to do, with which order, and which item; the "
        "messages are made by rule.",
        try_text="Hi! I bought a tea kettle, order 52817, but the lid does not close. I want my money back.",
    ),
)


def demo_tasks(*, generative: bool) -> tuple[DemoTask, ...]:
    """What the models of the demo are taught."""
    return (*TASKS, *WRITING_TASKS) if generative else TASKS
