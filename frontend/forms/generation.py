"""The form of the playground for generative models."""

from typing import Any, Final

from django import forms

from frontend.forms.playground import FIELDS
from versiontree.tree.selectors.callable_hplms import InputKind

TEXT: Final = "text"
SYSTEM: Final = "system"
SAMPLING: Final = ("temperature", "top_p", "max_tokens", "repetition_penalty", "seed")
"""The parameters of the API that the form has, by the same names."""
MAX_SEED: Final = 2**53 - 1
"""The largest integer that a browser sends exactly."""


def _number(step: float) -> forms.NumberInput:
    return forms.NumberInput({"step": step})


class GenerationForm(forms.Form):
    """The message or prompt, and how the answer is generated. The page's script sends it to the API."""

    system = forms.CharField(
        label="System prompt",
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 2, "placeholder": "How the model should answer.", "dir": "auto"}),
    )
    temperature = forms.FloatField(min_value=0, max_value=2, initial=0.7, required=False, widget=_number(0.1))
    top_p = forms.FloatField(
        label="Top-p", min_value=0.01, max_value=1, initial=0.95, required=False, widget=_number(0.01)
    )
    max_tokens = forms.IntegerField(
        label="Max tokens", min_value=1, initial=256, required=False, widget=_number(1)
    )
    repetition_penalty = forms.FloatField(
        label="Repetition penalty",
        min_value=0.1,
        max_value=2,
        initial=1,
        required=False,
        widget=_number(0.05),
    )
    seed = forms.IntegerField(
        min_value=0,
        max_value=MAX_SEED,
        required=False,
        widget=forms.NumberInput({"step": 1, "placeholder": "random"}),
    )

    def __init__(self, reads: InputKind, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        [(label, hint)] = FIELDS[reads].values()
        widget = forms.Textarea({"rows": 2, "placeholder": hint, "dir": "auto"})
        self.fields[TEXT] = forms.CharField(label=label, strip=False, widget=widget)
        if reads != InputKind.CHAT:
            del self.fields[SYSTEM]

    def sampling(self) -> list[forms.BoundField]:
        """Return the fields of the sampling parameters."""
        return [self[name] for name in SAMPLING]
