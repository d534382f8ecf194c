"""Form fields for the specs of a job, whatever the table of specs holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms

from versiontree.jobs.models import JobKind
from versiontree.tree.training_settings import SETTING_SPECS, SettingSpec

LABELS: Final = {
    "adapter": "Adapter width after attention",
    "balance_classes": "Balance classes",
    "biases": "Train biases",
    "distil_minutes": "Minutes of distillation",
    "distil_tokens": "Tokens of distillation",
    "full_context_share": "Share with full context",
    "head_tokens": "Tokens for the LM head",
    "lora": "LoRA rank",
    "lower": "Layers below the cut",
    "max_epochs": "Maximum epochs",
    "max_tokens": "Tokens of a text at most",
    "min_steps": "Minimum steps",
    "minutes": "Minutes at most",
    "n": "Length of a fragment",
    "norms": "Train layer norms",
    "output_adapter": "Adapter width after feed-forward",
    "patience": "Patience",
    "ridge_tokens": "Tokens for the closed form",
    "vectors": "Vectors of the table",
}
PET_SETTINGS: Final = ("adapter", "output_adapter", "lora", "biases", "norms", "pooling")
DEFAULT_LABEL: Final = "As it does by itself"
INHERITED_LABEL: Final = "As in the version before"


@dataclass(frozen=True, slots=True)
class FieldWidgets:
    """The widgets that a site's forms are made of."""

    number: type[forms.NumberInput] = forms.NumberInput
    select: type[forms.Select] = forms.Select


def setting_fields(
    kind: JobKind,
    widgets: FieldWidgets = FieldWidgets(),
    *,
    empty_label: str = "",
) -> dict[str, forms.Field]:
    """A field for each spec of this kind of job, the PET's first, the seed last; all may stay empty.

    ``empty_label`` says what a field left empty means, where that is not the default of the spec.
    """
    specs = SETTING_SPECS[kind]
    order = sorted(specs, key=lambda name: (name not in PET_SETTINGS, name == "seed"))
    return {name: _field(name, specs[name], widgets, empty_label) for name in order}


def settings_filled(cleaned: Mapping[str, Any], kind: JobKind) -> dict[str, Any]:
    """The settings that were filled in; the rest keep the defaults of the training code."""
    chosen = {name: cleaned.get(name) for name in SETTING_SPECS[kind]}
    return {name: _value(value) for name, value in chosen.items() if value not in (None, "")}


class TrainingSettingsForm(forms.BaseForm):
    """A form with the settings of the training it starts; name it first in the bases."""

    kind: ClassVar[JobKind]
    makes_table: ClassVar[bool] = False
    empty_label: ClassVar[str] = ""
    table_empty_label: ClassVar[str] = ""
    widgets: ClassVar[FieldWidgets] = FieldWidgets()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        added = {name: field for name, field in self._setting_fields().items() if name not in self.fields}
        self.fields.update(added)
        self.more = tuple(added)

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """The names of the settings, without those that the form has a field of its own for."""
        return tuple(name for name in cls._setting_fields() if name not in getattr(cls, "base_fields", {}))

    def settings(self) -> dict[str, Any]:
        """The settings that were filled in; the rest keep the defaults of the training code."""
        return settings_filled(self.cleaned_data, self.kind)

    def table(self) -> dict[str, Any]:
        """How the table shall store its vectors, if that was said."""
        return settings_filled(self.cleaned_data, JobKind.BUILD_PLOT)

    @classmethod
    def _setting_fields(cls) -> dict[str, forms.Field]:
        fields = setting_fields(cls.kind, cls.widgets, empty_label=cls.empty_label)
        if cls.makes_table:
            fields |= setting_fields(JobKind.BUILD_PLOT, cls.widgets, empty_label=cls.table_empty_label)
        return fields


def setting_label(name: str) -> str:
    """What people call a setting."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


def _field(name: str, spec: SettingSpec, widgets: FieldWidgets, empty_label: str) -> forms.Field:
    """The spec's own type, bounds or choices decide what the field is."""
    shown: dict[str, Any] = {"label": setting_label(name), "required": False, "help_text": spec.help}
    if spec.type is bool:
        return _choice_field({"true": "Yes", "false": "No"}, spec, shown, widgets, empty_label)
    if spec.choices:
        offered = {choice: choice.replace("_", " ") for choice in spec.choices}
        return _choice_field(offered, spec, shown, widgets, empty_label)
    return _number_field(spec, shown, widgets, empty_label)


def _choice_field(
    offered: Mapping[str, str],
    spec: SettingSpec,
    shown: Mapping[str, Any],
    widgets: FieldWidgets,
    empty_label: str,
) -> forms.Field:
    default = offered.get(str(spec.default).lower(), "")
    empty = empty_label or (f"{DEFAULT_LABEL} ({default.lower()})" if default else DEFAULT_LABEL)
    return forms.ChoiceField(**shown, choices=[("", empty), *offered.items()], widget=widgets.select)


def _number_field(
    spec: SettingSpec, shown: Mapping[str, Any], widgets: FieldWidgets, empty_label: str
) -> forms.Field:
    whole = spec.type is int
    default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
    hint = {"placeholder": empty_label or default} if empty_label or spec.default is not None else {}
    widget = widgets.number({**hint, **({} if whole else {"step": "any"})})
    if whole:
        return forms.IntegerField(
            **shown, min_value=int(spec.min_value), max_value=int(spec.max_value), widget=widget
        )
    return forms.FloatField(**shown, min_value=spec.min_value, max_value=spec.max_value, widget=widget)


def _value(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
