"""The form of the page on which an hPLM is tried."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django import forms

from tenants.errors import HmiError
from tenants.models import Task, Tenant
from versiontree.selectors import hplms_of, resolve_model
from versiontree.serving import takes_pairs


@dataclass(frozen=True, slots=True)
class Offer:
    """An hPLM that can answer: how it is called here, and what it reads."""

    label: str
    task: str
    pairs: bool


def _text(label: str, hint: str, rows: int = 8, **more: Any) -> forms.CharField:
    widget = forms.Textarea({"rows": rows, "placeholder": hint})
    return forms.CharField(label=label, strip=False, widget=widget, **more)


class TryForm(forms.Form):
    """A reference to an hPLM that can answer, and what it reads: a text, two, or a question and context."""

    model = forms.ChoiceField(label="hPLM")
    text = _text("Text", "Write or paste a text.")

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        asked = str(self.data.get("model") or self.initial.get("model") or "")
        offers = _offers(tenant, asked)
        references = [(reference, offer.label) for reference, offer in offers.items()]
        self.fields["model"] = forms.ChoiceField(label="hPLM", choices=references)
        chosen = offers.get(asked) or next(iter(offers.values()), None)
        self.questions = chosen is not None and chosen.task == Task.QUESTION_ANSWERING
        if self.questions:
            self.fields["text"] = _text("Question", "What do you want to know?", rows=2)
            self.fields["second"] = _text("Context", "The text in which the answer may stand.")
        elif chosen is not None and chosen.pairs:
            self.fields["text"].label = "First text"
            self.fields["second"] = _text("Second text", "The text that goes with the first.")

    def given(self) -> str | dict[str, str]:
        """The input as the infer request takes it."""
        text, second = self.cleaned_data["text"], self.cleaned_data.get("second")
        if second is None:
            return str(text)
        names = ("question", "context") if self.questions else ("text", "text_pair")
        return dict(zip(names, (text, second), strict=True))

    def marked(self) -> str:
        """The text in which an answer marks its spans."""
        return str(self.cleaned_data["second" if self.questions else "text"])


def _offers(tenant: Tenant, asked: str) -> dict[str, Offer]:
    """Every alias of the tenant's hPLMs, and the version that a link named by its number."""
    offers = {
        f"{hplm.name}@{alias.name}": Offer(
            f"{hplm.name} @{alias.name} (v{alias.version.number})",
            hplm.task,
            takes_pairs(hplm.task, alias.version.config),
        )
        for hplm in hplms_of(tenant)
        for alias in hplm.aliases.all()
    }
    if ":" in asked:
        with suppress(HmiError):  # a version that cannot answer is not on offer
            found = resolve_model(tenant, asked)
            offers[asked] = Offer(f"{found.hplm_name} v{found.version_number}", found.task, found.pairs)
    return offers
