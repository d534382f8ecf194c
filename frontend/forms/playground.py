"""Forms of the playground."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from django import forms
from django.http import QueryDict

from inference.api.validation import Quality
from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from versiontree.tree.selectors.callable_hplms import (
    CallableHplm,
    InputKind,
    callable_bases,
    callable_hplm,
    callable_hplms,
)

MAX_MODELS: Final = 4


@dataclass(frozen=True, slots=True)
class ChosenModels:
    """The models to compare, and the reasons why others were left out."""

    offers: Sequence[CallableHplm]
    faults: Sequence[str]

    @property
    def reads(self) -> InputKind:
        """Return the kind of input of the models."""
        return self.offers[0].input_kind if self.offers else InputKind.TEXT

    @property
    def full(self) -> bool:
        """Return whether no more models can be added."""
        return len(self.offers) >= MAX_MODELS

    @property
    def query(self) -> str:
        """Return the query of the chosen models."""
        query = QueryDict(mutable=True)
        query.setlist("model", [offer.reference for offer in self.offers] or [""])
        return query.urlencode(safe="@:")


def chosen_models(tenant: Tenant, data: QueryDict) -> ChosenModels:
    """Return the models in `model` and `add` without `drop`; the first callable model if none is named, or
    the first base model.

    Models with another kind of input than the first one, or too many, are left out with the reason.
    """
    references = [*data.getlist("model"), data.get("add", "")]
    wanted = dict.fromkeys(name for name in map(str.strip, references) if name)
    wanted.pop(data.get("drop", ""), None)
    if not wanted and "model" not in data:
        return ChosenModels(callable_hplms(tenant, limit=1) or callable_bases(tenant)[:1], [])
    return _comparable(tenant, wanted)


def _comparable(tenant: Tenant, references: Iterable[str]) -> ChosenModels:
    offers: list[CallableHplm] = []
    faults: list[str] = []
    for reference in references:
        try:
            offer = callable_hplm(tenant, reference)
        except HmiError as refusal:
            faults.append(f"{reference}: {refusal.message}")
            continue
        if offer.is_base and offers and offers[0].input_kind == InputKind.PROMPT:
            offer = offer.as_completion() if offer.input_kind == InputKind.CHAT else offer
        if len(offers) == MAX_MODELS:
            faults.append(f"{reference} was not added: you can compare at most {MAX_MODELS} models.")
        elif offers and offer.input_kind != offers[0].input_kind:
            faults.append(
                f"{reference} reads {offer.input_kind}, {offers[0].reference} reads {offers[0].input_kind}: "
                "you can compare only models with the same kind of input."
            )
        else:
            offers.append(offer)
    return ChosenModels(offers, faults)


def _text(label: str, hint: str, rows: int = 5) -> forms.CharField:
    widget = forms.Textarea({"rows": rows, "placeholder": hint, "dir": "auto"})
    return forms.CharField(label=label, strip=False, widget=widget)


FIELDS: Final[dict[InputKind, dict[str, tuple[str, str]]]] = {
    InputKind.TEXT: {"text": ("Text", "Type or paste a text.")},
    InputKind.PAIR: {
        "text": ("First text", "Type or paste a text."),
        "text_pair": ("Second text", "The text to compare with the first one."),
    },
    InputKind.QUESTION: {
        "question": ("Question", "What do you want to know?"),
        "context": ("Context", "The text to search for the answer."),
    },
    InputKind.PROMPT: {"prompt": ("Prompt", "Enter a prompt")},
    InputKind.CHAT: {"message": ("Message", "Write a message.")},
    InputKind.EMBEDDING: {
        "text": ("Text", "Type or paste a text."),
        "text_pair": ("Second text", "Optional. See how similar it is to the first one."),
    },
}
"""Label and hint of each text, by its name in the infer request, and in rows of datasets."""
PLACES: Final = ("text", "second")
"""The form fields of the first and the second text."""
QUALITY: Final = "quality"
QUALITY_LABELS: Final[dict[Quality | Literal[""], str]] = {
    "": "Model default",
    "balanced": "Balanced: recompute only uncertain texts",
    "fast": "Fast: use precomputed results",
    "exact": "Exact: run the full model on every text",
}


class PlaygroundForm(forms.Form):
    """The input and quality of an infer request. The first text is in `text`, the second one in `second`.

    So both are kept when the user chooses models with another kind of input.
    """

    quality = forms.ChoiceField(
        label="Quality",
        choices=[*QUALITY_LABELS.items()],
        initial="",
        required=False,
        widget=forms.RadioSelect,
    )

    def __init__(self, reads: InputKind, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names = list(FIELDS[reads])
        for place, (name, (label, hint)) in zip(PLACES, FIELDS[reads].items(), strict=False):
            self.fields[place] = _text(label, hint, 2 if name == "question" else 5)
        if reads == InputKind.EMBEDDING:
            del self.fields[QUALITY]
            self.fields[PLACES[1]].required = False

    def given(self) -> dict[str, str]:
        """Return the texts that are filled in, by their names in the infer request."""
        given = zip(self._names, PLACES, strict=False)
        return {name: self.cleaned_data[place] for name, place in given if self.cleaned_data[place]}

    def chosen_quality(self) -> Quality | None:
        """Return the quality of the request; None if the user chose none."""
        return cast("Quality | None", self.cleaned_data.get(QUALITY) or None)

    def texts(self) -> list[forms.BoundField]:
        """Return the fields of the texts."""
        return [self[place] for place in PLACES if place in self.fields]
