"""The body of `POST /v1/fine_tuning/jobs`, and the training settings that it stands for."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference.openai.serializers import MetadataField
from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.api.serializers import ColumnsField
from tenants.datasets.formats.row_parser import DEFAULT_SEPARATOR
from tenants.datasets.models import DATASET_TASK_CHOICES
from versiontree.jobs.models import JobKind
from versiontree.tree.api.job_settings import TRAINING_SETTINGS_UPDATE
from versiontree.tree.models import RootKind
from versiontree.tree.training_settings import (
    SettingValue,
    setting_specs,
    setting_validate,
    settings_check,
)

AUTO: Final = "auto"
SUPERVISED: Final = "supervised"
HYPERPARAMETERS: Final = ("n_epochs", "batch_size", "learning_rate_multiplier")


@extend_schema_field({"oneOf": [{"const": AUTO}, {"type": "number"}]})
class AutoField(serializers.Field[Any, Any, Any, Any]):
    """A positive number, or `auto`: the training chooses."""

    def __init__(self, *, integer: bool) -> None:
        super().__init__(required=False, default=AUTO)
        self.integer = integer

    def to_internal_value(self, data: Any) -> Any:
        """The number, or `auto`."""
        kinds = (int,) if self.integer else (int, float)
        if data == AUTO or (isinstance(data, kinds) and not isinstance(data, bool) and 0 < data < 10**6):
            return data
        raise serializers.ValidationError(f"This is {AUTO!r} or a {'whole ' * self.integer}number above 0.")

    def to_representation(self, value: Any) -> Any:
        """The value, unchanged."""
        return value


class HyperparametersSerializer(StrictSerializer):
    """Hyperparameters of the training."""

    n_epochs = AutoField(integer=True)
    batch_size = AutoField(integer=True)
    learning_rate_multiplier = AutoField(integer=False)


class SupervisedSerializer(StrictSerializer):
    """Parameters of the method `supervised`."""

    hyperparameters = HyperparametersSerializer(required=False)


class MethodSerializer(StrictSerializer):
    """The method of the training: only `supervised`."""

    type = ChoiceField([SUPERVISED])
    supervised = SupervisedSerializer(required=False)


@extend_schema_field(TRAINING_SETTINGS_UPDATE)
class TrainingSettingsField(serializers.DictField):
    """Settings of fine-tuning by name."""


class HmiOptionsSerializer(StrictSerializer):
    """Options of the product that OpenAI's API does not have."""

    task = ChoiceField(DATASET_TASK_CHOICES, required=False)
    columns = ColumnsField(required=False)
    separator = serializers.CharField(required=False, default=DEFAULT_SEPARATOR)
    allow_leaks = serializers.BooleanField(required=False, default=False)
    quick = serializers.BooleanField(
        required=False, default=True, help_text="As in POST models: a new model gets a quick version, too."
    )
    settings = TrainingSettingsField(required=False, help_text="As in POST models; override hyperparameters.")


class FineTuningRequestSerializer(StrictSerializer):
    """The body of a request for a fine-tuning job."""

    model = serializers.CharField(max_length=200, help_text="root, root/domain, tenant/domain or a model.")
    training_file = serializers.CharField(max_length=100)
    validation_file = serializers.CharField(max_length=100, required=False, allow_null=True)
    suffix = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="The name of the new model."
    )
    seed = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=2**31 - 1)
    hyperparameters = HyperparametersSerializer(required=False)
    method = MethodSerializer(required=False)
    metadata = MetadataField()
    integrations = serializers.ListField(required=False, allow_null=True, help_text="Not supported.")
    hmi = HmiOptionsSerializer(required=False)

    def validate_integrations(self, value: list[Any] | None) -> list[Any] | None:
        """Refuse integrations."""
        if value:
            raise serializers.ValidationError("Integrations are not supported.")
        return value


def hyperparameters_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters of the method, or the deprecated top-level ones."""
    method = data.get("method", {}).get(SUPERVISED, {}).get("hyperparameters")
    values = method or data.get("hyperparameters") or {}
    return {name: values.get(name, AUTO) for name in HYPERPARAMETERS}


def check_setting_names(data: Mapping[str, Any]) -> None:
    """Raise `invalid_field` for a setting that no kind of model has, whatever the request's model is."""
    known = {name for root in RootKind for name in setting_specs(JobKind.FINE_TUNE, root)}
    for name in data.get("hmi", {}).get("settings") or {}:
        if name not in known:
            message = f"Unknown setting {name!r} (known: {', '.join(sorted(known))})."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param=f"hmi.settings.{name}")


def training_settings(data: Mapping[str, Any], root: RootKind) -> dict[str, Any]:
    """The training settings that the request stands for, below such a root. Raises `invalid_field`."""
    specs, chosen = setting_specs(JobKind.FINE_TUNE, root), hyperparameters_of(data)
    settings: dict[str, SettingValue] = {}
    if (epochs := chosen["n_epochs"]) != AUTO:
        settings["epochs"] = setting_validate(specs["epochs"], epochs, "hyperparameters.n_epochs")
    if (batch := chosen["batch_size"]) != AUTO:
        settings["batch_size"] = setting_validate(specs["batch_size"], batch, "hyperparameters.batch_size")
    if (factor := chosen["learning_rate_multiplier"]) != AUTO:
        rate, default = specs["learning_rate"], float(specs["learning_rate"].default or 0)
        _check_factor(factor, rate.min_value / default, rate.max_value / default)
        settings["learning_rate"] = factor * default
    if data.get("seed") is not None:
        settings["seed"] = data["seed"]
    return settings | _explicit_settings(data.get("hmi", {}).get("settings"), root)


def _explicit_settings(values: Mapping[str, Any] | None, root: RootKind) -> dict[str, SettingValue]:
    try:
        return settings_check(JobKind.FINE_TUNE, values, root)
    except HmiError as error:
        error.param = f"hmi.{error.param}"
        raise


def _check_factor(factor: float, minimum: float, maximum: float) -> None:
    if not minimum <= factor <= maximum:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"This is a number from {minimum:g} to {maximum:g}.",
            param="hyperparameters.learning_rate_multiplier",
        )
