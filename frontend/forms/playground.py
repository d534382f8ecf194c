"""The playground's form: which models are asked, and what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.http import QueryDict

from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.selectors.callable_hplms import CallableHplm, InputKind, callable_hplm, callable_hplms

MOST: Final = 4
"""Models side by side."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The models that were chosen and can stand side by side, and why others cannot."""

    offers: Sequence[CallableHplm]
    faults: Sequence[str]

    @property
    def reads(self) -> InputKind:
        """What all of them read."""
        return self.offers[0].input_kind if self.offers else InputKind.TEXT

    @property
    def full(self) -> bool:
        """Whether there is no place for a further one."""
        return len(self.offers) >= MOST

    @property
    def query(self) -> str:
        """The choice as an address carries it."""
        query = QueryDict(mutable=True)
        query.setlist("model", [offer.reference for offer in self.offers])
        return query.urlencode(safe="@:")


def choice_of(tenant: Tenant, data: QueryDict) -> Choice:
    """What ``model`` names, with ``add`` and without ``drop``; the first model there is where none is named.

    What cannot stand beside the first one, or is one too many, is left out with the reason.
    """
    named = [*data.getlist("model"), data.get("add", "")]
    wanted = dict.fromkeys(name for name in map(str.strip, named) if name)
    wanted.pop(data.get("drop", ""), None)
    if not wanted and "model" not in data:
        return Choice(callable_hplms(tenant, limit=1), [])
    return _side_by_side(tenant, wanted)


def _side_by_side(tenant: Tenant, references: Iterable[str]) -> Choice:
    offers: list[CallableHplm] = []
    faults: list[str] = []
    for reference in references:
        try:
            offer = callable_hplm(tenant, reference)
        except HmiError as refusal:
            faults.append(f"{reference}: {refusal.message}")
            continue
        if len(offers) == MOST:
            faults.append(f"{reference} was not added: you can compare at most {MOST} models.")
        elif offers and offer.input_kind != offers[0].input_kind:
            faults.append(
                f"{reference} reads {offer.input_kind}, {offers[0].reference} reads {offers[0].input_kind}: "
                "you can compare only models with the same kind of input."
            )
        else:
            offers.append(offer)
    return Choice(offers, faults)


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
}
"""By the names that the infer request has for them: label and hint."""


PLACES: Final = ("text", "second")
"""The fields that they are written in, in their order."""


class PlaygroundForm(forms.Form):
    """What models that read the same are asked. The first text is in `text`, the other in `second`, so that
    neither is lost when models are chosen that read something else."""

    def __init__(self, reads: InputKind, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names = list(FIELDS[reads])
        for place, (name, (label, hint)) in zip(PLACES, FIELDS[reads].items(), strict=False):
            self.fields[place] = _text(label, hint, 2 if name == "question" else 5)

    def given(self) -> dict[str, str]:
        """The texts by the names that the infer request has for them."""
        return {name: self.cleaned_data[place] for name, place in zip(self._names, self.fields, strict=True)}


class BatchForm(forms.Form):
    """A model, and a file of inputs for it."""

    model = forms.CharField(
        label="Model",
        max_length=256,
        help_text=f"A name, name@alias or name:version. A name alone means @{DEFAULT_ALIAS}.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    file = forms.FileField(
        label="Inputs",
        allow_empty_file=True,
        help_text="JSON lines, at most a million. Each line is a text, or an object such as {text, text_pair}"
        " or {question, context}. If it has an id, the result has the same id.",
        widget=forms.ClearableFileInput({"accept": ".jsonl,.ndjson,.json,.txt,application/jsonl"}),
    )
