"""Settings of jobs as fields of requests. The OpenAPI schema describes them, the services validate them."""

from typing import Any, Final

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from tenants.base.api.inputs import ChoiceField, StrictSerializer
from versiontree.job_settings import SettingSpec
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind
from versiontree.tree.training_settings import SETTINGS_CLASSES, setting_specs

UPDATE: Final = "Update"
"""The end of the schema's name of settings, if omitted settings stay as they were."""


def settings_serializer(kind: JobKind, root: RootKind, *, inherited: bool = False) -> type[StrictSerializer]:
    """A serializer with a field for each setting: its type, default, bounds or choices, and description.

    ``inherited``: omitted settings have no default, but stay as in the version before.
    """
    specs = setting_specs(kind, root)
    fields = {name: _field(spec, has_default=not inherited) for name, spec in specs.items()}
    omitted = "Omitted ones stay as in the version before." if inherited else "All are optional."
    docstring = {"__doc__": f"Settings of a job below {root.in_words}. {omitted}"}
    name = f"{SETTINGS_CLASSES[kind, root].__name__}{UPDATE if inherited else ''}Serializer"
    return type(name, (StrictSerializer,), {**fields, **docstring})


def _field(spec: SettingSpec, *, has_default: bool) -> serializers.Field[Any, Any, Any, Any]:
    common: dict[str, Any] = {"required": False, "help_text": spec.help}
    if has_default and spec.default is not None:
        common["default"] = spec.default
    if spec.type is bool:
        return serializers.BooleanField(**common)
    if spec.type is str:
        return ChoiceField(choices=spec.choices, **common)
    if spec.type is int:
        return serializers.IntegerField(
            min_value=int(spec.min_value), max_value=int(spec.max_value), **common
        )
    return serializers.FloatField(min_value=spec.min_value, max_value=spec.max_value, **common)


class SettingsField(serializers.JSONField):
    """Settings of a job by name. The service validates them: they depend on the kind of the root."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, default=dict, **kwargs)


def _either(kind: JobKind, name: str, *, inherited: bool = False) -> PolymorphicProxySerializer:
    return PolymorphicProxySerializer(
        component_name=f"{name}{UPDATE if inherited else ''}",
        serializers=[settings_serializer(kind, root, inherited=inherited) for root in RootKind],
        resource_type_field_name=None,
    )


TRAINING_SETTINGS: Final = _either(JobKind.FINE_TUNE, "TrainingSettings")
TRAINING_SETTINGS_UPDATE: Final = _either(JobKind.FINE_TUNE, "TrainingSettings", inherited=True)


@extend_schema_field(TRAINING_SETTINGS)
class TrainingSettingsField(SettingsField):
    """Settings of fine-tuning."""


@extend_schema_field(TRAINING_SETTINGS_UPDATE)
class TrainingSettingsUpdateField(SettingsField):
    """Settings of fine-tuning that differ from those of the version before."""


@extend_schema_field(_either(JobKind.CONVERT, "ConversionSettings"))
class ConversionSettingsField(SettingsField):
    """Settings of the conversion of a root."""


@extend_schema_field(settings_serializer(JobKind.FURTHER_PRETRAIN, RootKind.ENCODER))
class PretrainingSettingsField(SettingsField):
    """Settings of further pretraining."""
