"""The bodies of `POST /v1/chat/completions` and `POST /v1/completions`; `request_fields` has what becomes of
other fields. `top_k`, `min_p` and `repetition_penalty` are this product's own."""

from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from inference.api.validation import check_inputs, check_reference, invalid
from inference.errors import HplmError
from inference.generation.requests import MAX_LOGPROBS, MAX_SEED, SamplingParams
from inference.openai.chat_messages import located, parse_messages
from inference.openai.request_fields import check_asks_nothing, known_fields
from inference.text.chat_template import ChatMessage
from tenants.base.errors import ErrorCode, HmiError

MAX_CHOICES: Final = 128
"""Of one request: prompts times `n`."""
MAX_STOPS: Final = 4
MAX_STOP_LENGTH: Final = 256
MAX_COMPLETION_LOGPROBS: Final = 5
DEFAULT_MAX_TOKENS: Final = 16
"""Of `/v1/completions`, as OpenAI has it. A chat goes on as long as the model can."""

TEMPLATE_ARGUMENTS: Final = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "documents", "tools"}
)
"""Keys of `chat_template_kwargs` that are no variables of a template: fields of the body, as there."""
MAX_TEMPLATE_VALUE: Final = 4096
"""Characters of a value of `chat_template_kwargs`."""


class StreamOptions(Struct, frozen=True, kw_only=True):
    """include_usage: a last chunk has the usage. continuous_usage_stats: with it, each chunk has the usage
    until then, as in vLLM. include_obfuscation is accepted, and nothing is added."""

    include_usage: bool = False
    continuous_usage_stats: bool = False
    include_obfuscation: bool = False


class GenerationCall(Struct, frozen=True, kw_only=True):
    """Fields of chat and text completion requests. Its constructor checks the values, and raises HmiError.

    max_tokens: of each choice; None: as many as fit. stop: strings that end a choice, not part of it. seed:
    None: any. n: choices for each prompt. top_logprobs: alternatives to report for each token; None: no log
    probability is reported. ignored: names of fields that the answer lists as ignored.
    """

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "model", check_reference(self.model))
        force_setattr(self, "stop", _check_stop(self.stop))
        force_setattr(self, "n", 1 if self.n is None else self.n)
        if not 1 <= self.choices <= MAX_CHOICES:
            raise invalid("n", f"There are 1 to {MAX_CHOICES} choices in total for all prompts.")
        if self.stream_options is not None and not self.stream:
            raise invalid("stream_options", 'Stream options are for "stream": true.')
        try:
            self.sampling(1 if self.max_tokens is None else self.max_tokens)
        except HplmError as error:
            raise located(error) from error

    @property
    def prompt_count(self) -> int:
        """How many prompts are continued."""
        return 1

    @property
    def choices(self) -> int:
        """How many completions are asked for."""
        return self.prompt_count * (self.n or 0)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """What ends a choice."""
        return self.stop if isinstance(self.stop, tuple) else ()

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def includes_usage_so_far(self) -> bool:
        """Whether each chunk of a stream has the usage until then."""
        return (
            self.include_usage
            and self.stream_options is not None
            and self.stream_options.continuous_usage_stats
        )

    @property
    def top_logprobs(self) -> int | None:
        """Alternatives to each token."""
        return None

    def sampling(
        self,
        max_tokens: int,
        *,
        choice: int = 0,
        seed: int = 0,
        stop_tokens: frozenset[int] = frozenset(),
    ) -> SamplingParams:
        """How the choice of this number is generated. ``max_tokens``: those that fit, where the request does
        not say; ``seed``: where the request has none. Raises HplmError(invalid_field)."""
        given = {name: value for name in _SAMPLING if (value := getattr(self, name)) is not None}
        first_seed = seed if self.seed is None else self.seed
        return SamplingParams(
            max_tokens=max_tokens,
            seed=(first_seed + choice) % (MAX_SEED + 1),
            stop_tokens=stop_tokens,
            logprobs=self.top_logprobs,
            **given,
        )


_SAMPLING: Final = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
)  # fmt: skip


class ChatCall(GenerationCall, frozen=True, kw_only=True):
    """A valid request for a chat's next message. messages: checked, of text. logprobs: whether the log
    probabilities of tokens are asked for, and alternatives: so many alternatives to each. template_values:
    for the variables of the chat template, as in vLLM."""

    messages: tuple[ChatMessage, ...]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    alternatives: int | None = msgspec.field(default=None, name="top_logprobs")
    template_values: dict[str, Any] | None = msgspec.field(default=None, name="chat_template_kwargs")

    def __post_init__(self) -> None:
        limits = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(limits) > 1:
            raise invalid("max_tokens", "max_tokens and max_completion_tokens differ. Send only one of them.")
        force_setattr(self, "max_tokens", next(iter(limits), None))
        if self.alternatives and not self.logprobs:
            raise invalid("top_logprobs", 'Alternatives are for "logprobs": true.')
        if self.alternatives is not None and not 0 <= self.alternatives <= MAX_LOGPROBS:
            raise invalid("top_logprobs", f"This is a whole number from 0 to {MAX_LOGPROBS}.")
        for name, value in (self.template_values or {}).items():
            _check_template_value(name, value)
        super().__post_init__()

    @property
    def top_logprobs(self) -> int | None:
        """Alternatives to each token."""
        return (self.alternatives or 0) if self.logprobs else None

    @classmethod
    def parse(cls, body: object) -> Self:
        """The call that the JSON value of a body is. Raises HmiError."""
        fields = _fields_of(body, cls, ("model", "messages"), '"messages": [{"role": "user", …}]')
        messages, ignored = parse_messages(fields["messages"])
        for name in ("max_tokens", "max_completion_tokens"):
            if type(fields.get(name)) is int and fields[name] == -1:  # llama.cpp's "no limit"
                fields, ignored = {**fields, name: None}, [*ignored, name]
        return _convert({**fields, "messages": messages, "ignored": [*fields["ignored"], *ignored]}, cls)


class CompletionCall(GenerationCall, frozen=True, kw_only=True):
    """A valid request for continuations of texts. prompt: checked texts. logprobs: so many alternatives to
    each token are reported with its log probability."""

    prompt: tuple[str, ...]
    logprobs: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is None:
            force_setattr(self, "max_tokens", DEFAULT_MAX_TOKENS)
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_COMPLETION_LOGPROBS:
            raise invalid("logprobs", f"This is a whole number from 0 to {MAX_COMPLETION_LOGPROBS}.")
        super().__post_init__()

    @property
    def prompt_count(self) -> int:
        """How many prompts are continued."""
        return len(self.prompt)

    @property
    def top_logprobs(self) -> int | None:
        """Alternatives to each token."""
        return self.logprobs

    @classmethod
    def parse(cls, body: object) -> Self:
        """The call that the JSON value of a body is. Raises HmiError."""
        fields = _fields_of(body, cls, ("model", "prompt"), '"prompt": "..."')
        return _convert({**fields, "prompt": _prompts(fields["prompt"])}, cls)


Call = TypeVar("Call", bound=GenerationCall)


def _fields_of(
    body: object, call: type[GenerationCall], required: tuple[str, ...], example: str
) -> dict[str, Any]:
    """The fields that the call has, among them the names of those of the body that are `ignored`. Raises
    HmiError for others that could change the answer, and for those that are missing."""
    if not isinstance(body, Mapping):
        raise invalid(None, f'The body must be a JSON object: {{"model": "...", {example}}}.')
    known = [name for name in call.__struct_encode_fields__ if name != "ignored"]
    fields, ignored = known_fields(body, known)
    for name in required:
        if fields.get(name) is None:
            raise HmiError(ErrorCode.MISSING_FIELD, f"The field {name!r} is missing.", param=name)
    if type(fields.get("top_k")) is int and fields["top_k"] == -1:  # vLLM's "off"
        fields, ignored = {**fields, "top_k": 0}, [*ignored, "top_k"]
    if type(fields.get("top_p")) in (int, float) and fields["top_p"] == 0:  # no token is in so small a share
        fields, ignored = {**fields, "top_p": 1, "temperature": 0}, [*ignored, "top_p"]
    return {**fields, "ignored": ignored}


def _convert(fields: Mapping[str, Any], call: type[Call]) -> Call:
    try:
        return msgspec.convert(fields, call)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        param = place.strip("`.") or None
        raise invalid(param, f"{said.replace('`', '')}.") from None
    except UnicodeEncodeError:  # half a surrogate pair in the place of something else
        raise invalid(None, "A field of the body has an invalid value.") from None


def _check_template_value(name: str, value: object) -> None:
    if name in TEMPLATE_ARGUMENTS:
        check_asks_nothing(name, value)
    if isinstance(value, dict | list) and value:
        raise invalid("chat_template_kwargs", f"The value of {name[:64]!a} is not a text, number or boolean.")
    if isinstance(value, str) and len(value) > MAX_TEMPLATE_VALUE:
        message = f"The value of {name[:64]!a} is longer than {MAX_TEMPLATE_VALUE:,} characters."
        raise invalid("chat_template_kwargs", message)


def _prompts(value: object) -> tuple[str, ...]:
    prompts = value if isinstance(value, list) else [value]
    if prompts and all(isinstance(part, int | list) and not isinstance(part, bool) for part in prompts):
        raise invalid("prompt", "Token ids are not supported. Send text.")
    for index, each in enumerate(prompts):
        if not isinstance(each, str):
            raise invalid(f"prompt[{index}]", f"Prompt {index} is not a string.")
    try:
        check_inputs(prompts, may_be_blank=True)
    except HmiError as error:
        error.param = error.param and error.param.replace("inputs", "prompt", 1)
        raise
    return tuple(prompts)


def _check_stop(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    stops = (value,) if isinstance(value, str) else value or ()
    if len(stops) > MAX_STOPS:
        raise invalid("stop", f"There are at most {MAX_STOPS} stop strings.")
    if not all(0 < len(stop) <= MAX_STOP_LENGTH for stop in stops):
        raise invalid("stop", f"A stop string has 1 to {MAX_STOP_LENGTH} characters.")
    return stops
