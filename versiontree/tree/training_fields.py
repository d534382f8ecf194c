"""Form fields for the settings of a job, made from ``setting_specs``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms

from versiontree.job_settings import SettingSpec
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind
from versiontree.tree.training_settings import SETTINGS_CLASSES, setting_specs

DEFAULT_LABEL: Final = "Default"
VALUE_LABELS: Final = {"cls": "first token", "cls_mean": "first token + average"}
INHERITED_LABEL: Final = "As in the previous version"


@dataclass(frozen=True, slots=True)
class FieldWidgets:
    """The widget classes of a site's forms."""

    number: type[forms.NumberInput] = forms.NumberInput
    select: type[forms.Select] = forms.Select


def setting_fields(
    kind: JobKind,
    widgets: FieldWidgets = FieldWidgets(),
    *,
    empty_label: str = "",
    root: RootKind = RootKind.ENCODER,
) -> dict[str, forms.Field]:
    """An optional form field for each setting of this kind of job.

    ``empty_label`` is the label of an empty field, by default the default value. ``root`` is the kind of root
    that the job is below.
    """
    specs = setting_specs(kind, root)
    return {name: _field(spec, widgets, empty_label) for name, spec in specs.items()}


def setting_fields_of_both(kind: JobKind, widgets: FieldWidgets = FieldWidgets()) -> dict[str, forms.Field]:
    """The fields of the settings below an encoder or a decoder, for a form in which the root is chosen.

    Help texts and placeholders say where the two differ. The service that the form calls refuses a setting
    that the chosen root does not have.
    """
    encoder, decoder = (setting_fields(kind, widgets, root=root) for root in RootKind)
    merged = {**encoder, **{name: field for name, field in decoder.items() if name not in encoder}}
    for name, field in merged.items():
        if name not in decoder or name not in encoder:
            only = RootKind.DECODER if name in decoder else RootKind.ENCODER
            field.help_text = f"Only below {only.in_words}. {field.help_text}".strip()
            continue
        if (other := decoder[name]).help_text != field.help_text:
            field.help_text = f"{field.help_text} Below a decoder: {other.help_text}".strip()
        default, others = (one.widget.attrs.get("placeholder", "") for one in (field, other))
        if others != default:
            field.widget.attrs["placeholder"] = f"{default} (decoder: {others or 'none'})".strip()
    return merged


def settings_filled(
    cleaned: Mapping[str, Any], kind: JobKind, root: RootKind = RootKind.ENCODER
) -> dict[str, Any]:
    """The settings that were filled in. The others keep the defaults of the training code."""
    filled = {name: cleaned.get(name) for name in setting_specs(kind, root)}
    return {name: _value(value) for name, value in filled.items() if value not in (None, "")}


class TrainingSettingsForm(forms.BaseForm):
    """A form with the settings of the job it starts. Must be the first base class.

    ``root`` is the kind of root that the job is below. With ``chooses_root`` that is not known yet: the form
    has the settings of both.
    """

    chooses_root: ClassVar[bool] = False
    kind: ClassVar[JobKind]
    builds_plot: ClassVar[bool] = False
    empty_label: ClassVar[str] = ""
    plot_empty_label: ClassVar[str] = ""
    widgets: ClassVar[FieldWidgets] = FieldWidgets()

    def __init__(self, *args: Any, root: RootKind = RootKind.ENCODER, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.root = root
        fields = self._setting_fields(root)
        added = {name: field for name, field in fields.items() if name not in self.fields}
        self.fields.update(added)
        self.more = tuple(added)

    @classmethod
    def setting_names(cls, root: RootKind = RootKind.ENCODER) -> tuple[str, ...]:
        """The names of the settings for which the form declares no field itself."""
        declared = getattr(cls, "base_fields", {})
        return tuple(name for name in cls._setting_fields(root) if name not in declared)

    def settings(self) -> dict[str, Any]:
        """The settings of the job that were filled in."""
        roots = (*RootKind,) if self.chooses_root else (self.root,)
        filled = [settings_filled(self.cleaned_data, self.kind, root) for root in roots]
        return {name: value for settings in filled for name, value in settings.items()}

    def plot_settings(self) -> dict[str, Any]:
        """The settings of the PLOT that were filled in."""
        return settings_filled(self.cleaned_data, JobKind.BUILD_PLOT)

    @classmethod
    def _setting_fields(cls, root: RootKind = RootKind.ENCODER) -> dict[str, forms.Field]:
        if cls.chooses_root:
            return setting_fields_of_both(cls.kind, cls.widgets)
        fields = setting_fields(cls.kind, cls.widgets, empty_label=cls.empty_label, root=root)
        if cls.builds_plot:
            fields |= setting_fields(JobKind.BUILD_PLOT, cls.widgets, empty_label=cls.plot_empty_label)
        return fields


def setting_label(name: str) -> str:
    """The label of a setting. A name that is no setting becomes words."""
    specs = (setting_specs(kind, root) for kind, root in SETTINGS_CLASSES)
    found = next((known[name].label for known in specs if name in known), None)
    return found or name.replace("_", " ").capitalize()


def value_label(value: str) -> str:
    """The label of a value of a setting. A value without a label of its own becomes words."""
    return VALUE_LABELS.get(value) or value.replace("_", " ")


def _field(spec: SettingSpec, widgets: FieldWidgets, empty_label: str) -> forms.Field:
    """A form field of the spec's type, with its bounds or choices."""
    common: dict[str, Any] = {"label": spec.label, "required": False, "help_text": spec.help}
    if spec.type is bool:
        return _choice_field({"true": "Yes", "false": "No"}, spec, common, widgets, empty_label)
    if spec.choices:
        labels = {choice: value_label(choice) for choice in spec.choices}
        return _choice_field(labels, spec, common, widgets, empty_label)
    return _number_field(spec, common, widgets, empty_label)


def _choice_field(
    labels: Mapping[str, str],
    spec: SettingSpec,
    common: Mapping[str, Any],
    widgets: FieldWidgets,
    empty_label: str,
) -> forms.Field:
    default = labels.get(str(spec.default).lower(), "")
    empty = empty_label or (f"{DEFAULT_LABEL} ({default.lower()})" if default else DEFAULT_LABEL)
    return forms.ChoiceField(**common, choices=[("", empty), *labels.items()], widget=widgets.select)


def _number_field(
    spec: SettingSpec, common: Mapping[str, Any], widgets: FieldWidgets, empty_label: str
) -> forms.Field:
    is_integer = spec.type is int
    default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
    hint = {"placeholder": empty_label or default} if empty_label or spec.default is not None else {}
    widget = widgets.number({**hint, **({} if is_integer else {"step": "any"})})
    if is_integer:
        return forms.IntegerField(
            **common, min_value=int(spec.min_value), max_value=int(spec.max_value), widget=widget
        )
    return forms.FloatField(**common, min_value=spec.min_value, max_value=spec.max_value, widget=widget)


def _value(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
