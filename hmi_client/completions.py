"""What generative models wrote, as dataclasses."""

from dataclasses import dataclass

from hmi_client.responses import Json


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat. ``role``: ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class CompletionUsage:
    """The tokens of the prompts and of all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """A message that a model wrote. ``finish_reason``: ``stop``, or ``length`` for one that was cut."""

    index: int
    message: Message
    finish_reason: str
    logprobs: Json | None = None


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """The next message of a chat, in one or more choices. ``model``: the version that wrote it. ``hmi``: its
    number format, and the fields of the request that were ignored."""

    id: str
    model: str
    choices: tuple[ChatChoice, ...]
    usage: CompletionUsage
    created: int = 0
    hmi: Json | None = None


@dataclass(frozen=True, slots=True)
class TextChoice:
    """The continuation of a text. ``finish_reason``: ``stop``, or ``length`` for one that was cut."""

    index: int
    text: str
    finish_reason: str
    logprobs: Json | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """Continuations of one or more texts, prompt by prompt. ``model``: the version that wrote them.
    ``hmi``: as of `ChatCompletion`."""

    id: str
    model: str
    choices: tuple[TextChoice, ...]
    usage: CompletionUsage
    created: int = 0
    hmi: Json | None = None


@dataclass(frozen=True, slots=True)
class CompletionDelta:
    """What a stream adds to the choice of this index. ``finish_reason``: of the last delta of the choice.
    ``usage``: of the last delta of the stream, which adds nothing else."""

    id: str
    model: str
    index: int = 0
    text: str = ""
    finish_reason: str | None = None
    usage: CompletionUsage | None = None
    logprobs: Json | None = None
