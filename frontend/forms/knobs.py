"""Fields for the knobs of a job, whatever the table of knobs holds."""

from collections.abc import Mapping
from typing import Any

from django import forms

from versiontree.models.job import JobKind
from versiontree.training_settings import KNOBS

LABELS = {
    "adapter_size": "Adapter width after attention",
    "adapter": "Adapter width after attention",
    "output_adapter": "Adapter width after feed-forward",
    "lora": "LoRA rank",
    "lora_places": "LoRA on",
    "biases": "Train biases",
    "norms": "Train layer norms",
    "batch": "Rows in a batch",
    "most_epochs": "Epochs at most",
    "minimum_steps": "Steps at least",
    "patience": "Epochs without gain before it stops",
    "head_tokens": "Tokens for the language model's head",
    "likeness": "Likeness to the root",
    "minutes": "Minutes at most",
}
PET = ("adapter", "adapter_size", "output_adapter", "lora", "lora_places", "biases", "norms", "pooling")
OTHERWISE = "As it does by itself"


def knob_fields(kind: JobKind) -> dict[str, forms.Field]:
    """A field for each knob of this kind of job, those of the PET first; all may stay empty."""
    knobs = KNOBS[kind]
    order = sorted(knobs, key=lambda name: (name not in PET, name == "seed"))
    return {name: _field(name, knobs[name]) for name in order}


def knobs_chosen(cleaned: Mapping[str, Any], kind: JobKind) -> dict[str, Any]:
    """The settings that were filled in; the rest keep the defaults of the training code."""
    chosen = {name: cleaned.get(name) for name in KNOBS[kind]}
    return {name: _value(value) for name, value in chosen.items() if value not in (None, "", [])}


def _field(name: str, knob: Any) -> forms.Field:
    """The knob's own type, bounds or choices decide what the field is."""
    label = LABELS.get(name, name.replace("_", " ").capitalize())
    shown: dict[str, Any] = {"label": label, "required": False, "help_text": getattr(knob, "help", "")}
    if knob.type is bool:
        answers = [("", OTHERWISE), ("true", "Yes"), ("false", "No")]
        return forms.ChoiceField(**shown, choices=answers)
    if choices := getattr(knob, "choices", ()):
        offered = [(choice, str(choice).replace("_", " ")) for choice in choices]
        if knob.type in (list, tuple):
            return forms.MultipleChoiceField(**shown, choices=offered, widget=forms.CheckboxSelectMultiple)
        return forms.ChoiceField(**shown, choices=[("", OTHERWISE), *offered])
    return _number_field(knob, shown)


def _number_field(knob: Any, shown: dict[str, Any]) -> forms.Field:
    default = getattr(knob, "default", None)
    hint = {"placeholder": f"{default:g}"} if isinstance(default, int | float) else {}
    whole = knob.type is int
    widget = forms.NumberInput({**hint, **({} if whole else {"step": "any"})})
    field = forms.IntegerField if whole else forms.FloatField
    return field(**shown, min_value=knob.least, max_value=knob.most, widget=widget)


def _value(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
