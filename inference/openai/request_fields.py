"""Fields of requests below `/v1` that this product does not have.

Clients send what other servers know. One that cannot change an answer is ignored, and the answer lists it in
`hmi.ignored`. One that could is refused by name, unless its value asks for nothing. docs/openai.md has the
table.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from tenants.base.api.inputs import unknown_field
from tenants.base.errors import ErrorCode, HmiError

MAX_NAMES_SHOWN: Final = 64
MAX_NAME_SHOWN: Final = 64
IGNORED: Final = frozenset(
    {
        # of OpenAI: about the caller, or how the request is billed, scheduled or cached
        *("metadata", "prompt_cache_key", "prompt_cache_retention"),
        *("safety_identifier", "service_tier", "user"),
        # of vLLM and SGLang
        *("cache_salt", "guided_decoding_backend", "include_reasoning", "kv_transfer_params", "priority"),
        *("request_id", "rid", "separate_reasoning", "stream_reasoning"),
        # of llama.cpp, LM Studio and Ollama
        *("cache_prompt", "draft_model", "id_slot", "keep_alive", "reasoning_format", "return_progress"),
        *("timings_per_token", "ttl"),
        # of OpenRouter and LiteLLM
        *("cache", "caching", "litellm_session_id", "litellm_trace_id", "provider", "route", "session_id"),
        *("tags", "trace", "usage"),
        # of Open WebUI
        *("background_tasks", "chat_id", "features", "filter_ids", "id", "model_item", "title", "variables"),
        # of vLLM: for the chat template, which only chats have
        "chat_template_kwargs",
        # of NVIDIA NIM and Cohere, Jina: which side of a search the texts of an embedding are on
        *("input_type", "modality", "task"),
    }
)
"""Do not change an answer."""
UNSUPPORTED: Final[Mapping[str, tuple[object, ...]]] = {
    # of OpenAI
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "reasoning_effort": ("none",),
    "response_format": ({"type": "text"},),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
    # of vLLM and SGLang
    "add_generation_prompt": (True,),
    "add_special_tokens": (),
    "allowed_token_ids": ([],),
    "bad_words": ([],),
    "chat_template": (),
    "continue_final_message": (False,),
    "documents": ([],),
    "ebnf": (),
    "enable_thinking": (),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "ignore_eos": (False,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1, 1.0),
    "logits_processors": ([],),
    "lora_path": (),
    "min_tokens": (0,),
    "mm_processor_kwargs": ({},),
    "prompt_logprobs": (0,),
    "regex": (),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "stop_token_ids": ([],),
    "structured_outputs": (),
    "thinking": ({"type": "disabled"},),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "vllm_xargs": ({},),
    # of llama.cpp, Ollama, Hugging Face, Mistral and OpenRouter
    "do_sample": (True,),
    "dry_multiplier": (0, 0.0),
    "grammar": ("",),
    "json_schema": (),
    "max_new_tokens": (),
    "mirostat": (0,),
    "models": ([],),
    "n_predict": (),
    "n_probs": (0,),
    "num_ctx": (),
    "num_predict": (),
    "options": ({},),
    "plugins": ([],),
    "random_seed": (),
    "reasoning": (),
    "repeat_penalty": (1, 1.0),
    "safe_prompt": (False,),
    "samplers": (),
    "think": (False,),
    "top_a": (0, 0.0),
    "transforms": ([],),
    "typical_p": (1, 1.0),
    "xtc_probability": (0, 0.0),
    # of embeddings, which have prompt_name and scale vectors if asked to; a text that is too long is cut
    "embedding_type": ("float",),
    "late_chunking": (False,),
    "normalize": (True,),
    "normalized": (True,),
    "prompt_name": (),
    "truncate": (True, "END", "RIGHT", "NONE"),
}
"""Could change an answer; null and these values ask for nothing."""
UNSUPPORTED_IN_MESSAGES: Final[Mapping[str, tuple[object, ...]]] = {
    "attachments": ([],),
    "audio": (),
    "experimental_attachments": ([],),
    "files": ([],),
    "function_call": ({},),
    "images": ([],),
    "partial": (False,),
    "prefix": (False,),
    "refusal": ("",),
    "tool_call_id": ("",),
    "tool_calls": ([],),
}
"""Of messages, likewise. Any other field that a message has besides its own is ignored, as OpenAI does:
clients keep their ids, times and figures there."""


def known_fields(body: Mapping[Any, Any], known: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """The fields of a body that the product has, and the names of those that are ignored. Raises HmiError:
    `unsupported_parameter`, or `invalid_field` for a name that nobody knows."""
    ignored: list[str] = []
    for name, value in body.items():
        if name in known:
            continue
        if name in UNSUPPORTED:
            check_asks_nothing(name, value)
        elif name not in IGNORED:
            raise unknown_field(str(name), known)
        elif value is not None:
            ignored.append(name)
    return {name: value for name, value in body.items() if name in known}, ignored


def ignored_in_message(message: Mapping[Any, Any], known: Collection[str], *, where: str) -> Iterator[str]:
    """The fields of a message that are ignored. Raises `unsupported_parameter`."""
    for name, value in message.items():
        if name in UNSUPPORTED_IN_MESSAGES and not asks_nothing(value, UNSUPPORTED_IN_MESSAGES[name]):
            raise unsupported(where, f"The field {name!r} of messages is not supported.")
        if name not in known and name not in UNSUPPORTED_IN_MESSAGES and value is not None:
            yield f"messages[].{name}"


def asks_nothing(value: object, neutral: Collection[object]) -> bool:
    """Whether the value is null or one of these."""
    return value is None or any(type(value) is type(each) and value == each for each in neutral)


def shown(names: Iterable[str]) -> tuple[str, ...]:
    """Names of fields as an answer lists them: each once, and neither too many nor too long."""
    texts = dict.fromkeys(ascii(name)[1:-1][:MAX_NAME_SHOWN] for name in names)
    return tuple(texts)[:MAX_NAMES_SHOWN]


def check_asks_nothing(name: str, value: object) -> None:
    """Raises `unsupported_parameter` for a field of UNSUPPORTED that asks for something."""
    if not asks_nothing(value, UNSUPPORTED[name]):
        raise unsupported(name, f"The parameter {name!r} is not supported.")


def unsupported(param: str, message: str) -> HmiError:
    """An `unsupported_parameter` at the place."""
    return HmiError(ErrorCode.UNSUPPORTED_PARAMETER, message, param=param)
