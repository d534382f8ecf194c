"""The inputs of an infer request: a text, two texts, or a question and its context; who takes which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference.api.admission import check_input_count, check_input_size
from inference.text.encodings import InferInput
from inference.text.tasks import QUESTION_ANSWERING
from inference.text.token_levels import QUESTION, TEXTS
from tenants.base.errors import ErrorCode, HmiError

FORMS = 'a string, {"text": …, "text_pair": …} or {"question": …, "context": …}'


@dataclass(frozen=True, slots=True)
class GivenInput:
    """A well-formed input: its texts by the names they were given under, none of them empty."""

    texts: Mapping[str, str]


def check_inputs(value: object) -> tuple[GivenInput, ...]:
    """A list of 1 to HMI_MAX_INPUTS inputs, each with something in it and encodable as UTF-8."""
    if not isinstance(value, list | tuple):
        raise invalid("inputs", f"The inputs must be a list; each is {FORMS}.")
    if not value:
        raise invalid("inputs", "The inputs must hold at least one text.")
    check_input_count(len(value))
    return tuple(_check_input(index, one) for index, one in enumerate(value))


def fit_inputs(given: Sequence[GivenInput], *, task: str, pairs: bool) -> tuple[InferInput, ...]:
    """The inputs as the tokenizer reads them, each with exactly the texts that the model was trained on."""
    of_task = TEXTS if pairs else TEXTS[:1]
    wanted = QUESTION if task == QUESTION_ANSWERING else of_task
    return tuple(_fit(index, one, wanted) for index, one in enumerate(given))


def _fit(index: int, given: GivenInput, wanted: tuple[str, ...]) -> InferInput:
    for name in given.texts:
        if name not in wanted:
            message = f"Input {index} has {name!r}; this model takes {_all_of(wanted)}."
            raise invalid(f"inputs[{index}].{name}", message, index=index)
    for name in wanted:
        if name not in given.texts:
            message = f"Input {index} has no {name!r}; this model takes {_all_of(wanted)}."
            raise refusal(ErrorCode.MISSING_FIELD, f"inputs[{index}].{name}", message, index=index)
    return InferInput(*(given.texts[name] for name in wanted))


def _all_of(wanted: tuple[str, ...]) -> str:
    return " and ".join(map(repr, wanted))


def _check_input(index: int, value: object) -> GivenInput:
    where = f"inputs[{index}]"
    if isinstance(value, GivenInput):
        return value
    if isinstance(value, str):
        return GivenInput({TEXTS[0]: _check_text(index, where, value)})
    if not isinstance(value, Mapping):
        raise invalid(where, f"Input {index} is neither {FORMS}.", index=index)
    names = QUESTION if QUESTION[0] in value or QUESTION[1] in value else TEXTS
    for name in value:
        if name not in names:
            shown = str(name)[:64]
            message = f"Input {index} has an unknown field {shown!r}; it must be {FORMS}."
            raise invalid(where, message, index=index)
    if TEXTS[0] not in value and names is TEXTS:
        raise refusal(ErrorCode.MISSING_FIELD, f"{where}.text", f"Input {index} has no 'text'.", index=index)
    return GivenInput(
        {name: _check_text(index, f"{where}.{name}", value[name]) for name in names if name in value}
    )


def _check_text(index: int, where: str, text: object) -> str:
    if not isinstance(text, str):
        raise invalid(where, f"Input {index} is not a string.", index=index)
    if not text.strip():
        raise refusal(ErrorCode.EMPTY_TEXT, where, f"Input {index} is empty.", index=index)
    if (position := text.find("\0")) >= 0:
        message = f"Input {index} holds a NUL character (position {position})."
        raise refusal(ErrorCode.INVALID_ENCODING, where, message, index=index, position=position)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        message = f"Input {index} holds half a surrogate pair (position {error.start})."
        raise refusal(ErrorCode.INVALID_ENCODING, where, message, index=index, position=error.start) from None
    check_input_size(size, index=index, where=where)
    return text


def invalid(param: str | None, message: str, **details: int) -> HmiError:
    """An `invalid_field` at the place."""
    return refusal(ErrorCode.INVALID_FIELD, param, message, **details)


def refusal(code: ErrorCode, param: str | None, message: str, **details: int) -> HmiError:
    """An error that names its place, to be raised."""
    return HmiError(code, message, param=param, details=details or None)
