"""The settings of jobs as docs/training_settings.md and the OpenAPI schema describe them."""

from pathlib import Path
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from versiontree.job_settings import SettingSpec
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind
from versiontree.tree.training_settings import setting_specs

PAGE = Path(__file__).resolve().parents[3] / "docs/training_settings.md"
TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
DESCRIBED = {
    "TrainingSettings": (JobKind.FINE_TUNE, (*RootKind,)),
    "ConversionSettings": (JobKind.CONVERT, (*RootKind,)),
    "PretrainingSettings": (JobKind.FURTHER_PRETRAIN, (RootKind.ENCODER,)),
}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """The shapes of the OpenAPI schema."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return dict(schema["components"]["schemas"])


def row(name: str, spec: SettingSpec) -> str:
    """A setting as the page has it."""
    default = str(spec.default).lower() if isinstance(spec.default, bool) else spec.default
    values = f"{spec.min_value:,} to {spec.max_value:,}"
    if spec.type in (bool, str):
        values = ", ".join(f"`{value}`" for value in spec.choices or ("true", "false"))
    shown = "" if default is None else f"`{default}`"
    return f"| `{name}` | {TYPES[spec.type]} | {values} | {shown} | {spec.help} |"


def test_the_page_has_every_setting_with_its_type_values_default_and_effect() -> None:
    documented = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    specs = [setting_specs(kind, root) for kind, roots in DESCRIBED.values() for root in roots]
    assert all(spec.help for each in specs for spec in each.values())
    assert sorted(documented) == sorted(row(name, spec) for each in specs for name, spec in each.items())


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_schema_has_them_with_types_bounds_and_defaults(name: str, schemas: dict[str, Any]) -> None:
    kind, roots = DESCRIBED[name]
    described = schemas[f"{name}Request"]
    alternatives = [described] if len(roots) == 1 else [schemas[named(each)] for each in described["anyOf"]]
    for root, alternative in zip(roots, alternatives, strict=True):
        specs = setting_specs(kind, root)
        assert alternative["additionalProperties"] is False
        assert list(alternative["properties"]) == list(specs)
        for setting, spec in specs.items():
            field = alternative["properties"][setting]
            if spec.choices:
                (choices,) = field["allOf"]
                assert schemas[named(choices)]["enum"] == list(spec.choices)
            else:
                assert field["type"] == TYPES[spec.type]
            if spec.type in (int, float):
                assert (field["minimum"], field["maximum"]) == (spec.min_value, spec.max_value)
            assert field["description"].startswith(spec.help)
            assert field.get("default") == spec.default


def test_settings_of_an_update_have_no_default_since_omitted_ones_stay(schemas: dict[str, Any]) -> None:
    sent = schemas["ModelUpdateRequest"]["properties"]["settings"]
    for each in schemas[named(sent)]["anyOf"]:
        properties = schemas[named(each)]["properties"]
        assert "epochs" in properties
        assert not [name for name, field in properties.items() if "default" in field]


def named(reference: dict[str, str]) -> str:
    """The name of the shape that is referred to."""
    return reference["$ref"].rpartition("/")[2]
