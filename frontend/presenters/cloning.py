"""Links to forms that are filled with the data, parent and settings of a version."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from tenants.accounts.models import Tenant
from versiontree.jobs.models import JobKind
from versiontree.names import MAX_NAME_LENGTH
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import LineageStep
from versiontree.tree.selectors.versions import as_mapping
from versiontree.tree.training_settings import ROW_SETTINGS

COPY: Final = "-2"
CLONED: Final = {VersionKind.HPLM: JobKind.FINE_TUNE, VersionKind.DOMAIN: JobKind.FURTHER_PRETRAIN}
"""The kind of job whose settings the form for a version of this kind takes."""


def clone_url(tenant: Tenant, version: Version) -> str:
    """Return the URL of the form that makes such a version again: a new object for version 1, otherwise an
    update. Empty if it cannot be cloned."""
    filled = _filled(version)
    if not filled:
        return ""
    if version.number == 1:
        filled |= {"name": _copy_name(version), "parent": version.parent_id}
    return f"{_form(tenant, version)}?{urlencode(filled)}"


def duplicate_url(tenant: Tenant, steps: Sequence[LineageStep]) -> str:
    """Return the URL of the form for a new model like a version of another one; `steps` lead from it to its
    root. Empty if its dataset is not known."""
    version = steps[0].version
    filled = _filled(version)
    if not filled:
        return ""
    parent = next(step.version.pk for step in steps if step.version.kind != VersionKind.HPLM)
    filled |= {"name": _copy_name(version), "parent": parent}
    return f"{reverse('frontend:model_new', args=[tenant.slug])}?{urlencode(filled)}"


def _filled(version: Version) -> dict[str, Any]:
    """Return data and settings by the names of the form's fields; empty if the data are not known."""
    kind = VersionKind(version.kind)
    source = version.dataset_id if kind == VersionKind.HPLM else version.corpus_id
    if kind not in CLONED or source is None:
        return {}
    config = version.config
    return {
        "dataset" if kind == VersionKind.HPLM else "corpus": source,
        **{name: config[name] for name in (*ROW_SETTINGS, "vectors") if name in config},
        **{name: _field_value(value) for name, value in as_mapping(config.get("settings")).items()},
    }


def _copy_name(version: Version) -> str:
    return f"{version.name[: MAX_NAME_LENGTH - len(COPY)].rstrip('-')}{COPY}"


def _form(tenant: Tenant, version: Version) -> str:
    """Return the URL of the form: for a new object if this is version 1, otherwise for an update."""
    slug, first = tenant.slug, version.number == 1
    if version.hplm is not None:
        own = reverse("frontend:model_update", args=[slug, version.hplm.name])
        return reverse("frontend:model_new", args=[slug]) if first else own
    own = reverse("frontend:domain_update", args=[slug, version.domain_id])
    return reverse("frontend:domain_new", args=[slug]) if first else own


def _field_value(value: Any) -> Any:
    """Return the value of the form field."""
    return str(value).lower() if isinstance(value, bool) else value
