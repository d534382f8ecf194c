"""Form fields for the knobs of a job, whatever the table of knobs holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms

from versiontree.jobs.models import JobKind
from versiontree.tree.training_settings import KNOBS, Knob

LABELS: Final = {
    "adapter": "Adapter width after attention",
    "balance": "Balance the classes",
    "batch": "Rows in a batch",
    "biases": "Train biases",
    "distil_minutes": "Minutes of distillation",
    "distil_tokens": "Tokens of distillation",
    "head_tokens": "Tokens for the LM head",
    "likeness": "Likeness to the root",
    "lora": "LoRA rank",
    "lower": "Layers below the cut",
    "max_tokens": "Tokens of a text at most",
    "minimum_steps": "Steps at least",
    "minutes": "Minutes at most",
    "mix": "Share read in full",
    "most_epochs": "Epochs at most",
    "n": "Length of a fragment",
    "norms": "Train layer norms",
    "output_adapter": "Adapter width after feed-forward",
    "patience": "BodyTimeout",
    "ridge_tokens": "Tokens for the closed form",
    "vectors": "Vectors of the table",
}
PET: Final = ("adapter", "output_adapter", "lora", "biases", "norms", "pooling")
OTHERWISE: Final = "As it does by itself"
AS_BEFORE: Final = "As in the version before"


@dataclass(frozen=True, slots=True)
class Looks:
    """The widgets that a site's forms are made of."""

    number: type[forms.NumberInput] = forms.NumberInput
    select: type[forms.Select] = forms.Select


def knob_fields(
    kind: JobKind,
    looks: Looks = Looks(),
    *,
    otherwise: str = "",
) -> dict[str, forms.Field]:
    """A field for each knob of this kind of job, the PET's first, the seed last; all may stay empty.

    ``otherwise`` says what a field left empty means, where that is not the default of the knob.
    """
    knobs = KNOBS[kind]
    order = sorted(knobs, key=lambda name: (name not in PET, name == "seed"))
    return {name: _field(name, knobs[name], looks, otherwise) for name in order}


def knobs_chosen(cleaned: Mapping[str, Any], kind: JobKind) -> dict[str, Any]:
    """The settings that were filled in; the rest keep the defaults of the training code."""
    chosen = {name: cleaned.get(name) for name in KNOBS[kind]}
    return {name: _value(value) for name, value in chosen.items() if value not in (None, "")}


class Knobbed(forms.BaseForm):
    """A form with the settings of the training it starts; name it first in the bases."""

    kind: ClassVar[JobKind]
    makes_table: ClassVar[bool] = False
    otherwise: ClassVar[str] = ""
    table_otherwise: ClassVar[str] = ""
    looks: ClassVar[Looks] = Looks()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        added = {name: field for name, field in self._knobs().items() if name not in self.fields}
        self.fields.update(added)
        self.more = tuple(added)

    @classmethod
    def more_names(cls) -> tuple[str, ...]:
        """The names of the settings, without those that the form has a field of its own for."""
        return tuple(name for name in cls._knobs() if name not in getattr(cls, "base_fields", {}))

    def settings(self) -> dict[str, Any]:
        """The settings that were filled in; the rest keep the defaults of the training code."""
        return knobs_chosen(self.cleaned_data, self.kind)

    def table(self) -> dict[str, Any]:
        """How the table shall store its vectors, if that was said."""
        return knobs_chosen(self.cleaned_data, JobKind.BUILD_PLOT)

    @classmethod
    def _knobs(cls) -> dict[str, forms.Field]:
        fields = knob_fields(cls.kind, cls.looks, otherwise=cls.otherwise)
        if cls.makes_table:
            fields |= knob_fields(JobKind.BUILD_PLOT, cls.looks, otherwise=cls.table_otherwise)
        return fields


def label_of(name: str) -> str:
    """What people call a setting."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


def _field(name: str, knob: Knob, looks: Looks, otherwise: str) -> forms.Field:
    """The knob's own type, bounds or choices decide what the field is."""
    shown: dict[str, Any] = {"label": label_of(name), "required": False, "help_text": knob.help}
    if knob.type is bool:
        return _choice_field({"true": "Yes", "false": "No"}, knob, shown, looks, otherwise)
    if knob.choices:
        offered = {choice: choice.replace("_", " ") for choice in knob.choices}
        return _choice_field(offered, knob, shown, looks, otherwise)
    return _number_field(knob, shown, looks, otherwise)


def _choice_field(
    offered: Mapping[str, str], knob: Knob, shown: Mapping[str, Any], looks: Looks, otherwise: str
) -> forms.Field:
    default = offered.get(str(knob.default).lower(), "")
    empty = otherwise or (f"{OTHERWISE} ({default.lower()})" if default else OTHERWISE)
    return forms.ChoiceField(**shown, choices=[("", empty), *offered.items()], widget=looks.select)


def _number_field(knob: Knob, shown: Mapping[str, Any], looks: Looks, otherwise: str) -> forms.Field:
    whole = knob.type is int
    default = f"{knob.default:g}" if isinstance(knob.default, float) else str(knob.default)
    hint = {"placeholder": otherwise or default} if otherwise or knob.default is not None else {}
    widget = looks.number({**hint, **({} if whole else {"step": "any"})})
    if whole:
        return forms.IntegerField(**shown, min_value=int(knob.least), max_value=int(knob.most), widget=widget)
    return forms.FloatField(**shown, min_value=knob.least, max_value=knob.most, widget=widget)


def _value(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
