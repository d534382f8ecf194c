"""Admin forms that stand for a service: what the service would refuse is shown at the form."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.db import transaction
from django.db.models import QuerySet
from unfold.widgets import (
    UnfoldAdminAutocompleteWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldBooleanSwitchWidget,
)

from tenants.admin.base import ModelForm
from tenants.errors import HmiError
from tenants.models import Corpus, Dataset
from versiontree.models import Alias, Domain, Hplm, Root, Version
from versiontree.models.version import VersionKind, VersionState
from versiontree.services.aliases import alias_move
from versiontree.services.domains import domain_create, domain_update
from versiontree.services.hplms import hplm_create, hplm_update
from versiontree.services.roots import root_register
from versiontree.training_settings import DEFAULT_ALPHA

# Not "dataset": the admin's theme takes a form with that field for something of its own.
DATASET: Final = "chosen_dataset"


class _Rehearsed(Exception):
    """Undoes a rehearsal."""


def rehearse(act: Callable[[], object]) -> HmiError | None:
    """Do it and undo it; with what it was refused, if it was."""
    try:
        with suppress(_Rehearsed), transaction.atomic():
            act()
            raise _Rehearsed
    except HmiError as error:
        return error
    return None


class ServiceForm(ModelForm):
    """A form whose ``act`` is rehearsed once its fields are valid, and done when it is saved."""

    def act(self, actor: Any) -> Any:
        """Call the service."""
        raise NotImplementedError

    def clean(self) -> Any:
        """Refuse what the service refuses."""
        cleaned = super().clean()
        refusal = None if self.errors else rehearse(lambda: self.act(None))
        if refusal is not None:
            place = DATASET if refusal.param == "dataset" else refusal.param
            place = place if place in self.fields else None
            self.add_error(place, forms.ValidationError(refusal.message, code=str(refusal.code)))
        return cleaned


def _alpha_field() -> forms.FloatField:
    return forms.FloatField(
        min_value=0,
        max_value=100,
        initial=DEFAULT_ALPHA,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Coverage: the share, in %, of the occurrences of fragments that the PLOT keeps.",
    )


def _platform_corpora() -> Any:
    return Corpus.unscoped.filter(tenant=None)


def _ready_parents() -> QuerySet[Version]:
    ready = Version.unscoped.filter(state=VersionState.READY).exclude(kind=VersionKind.HPLM)
    return ready.select_related("root", "domain__root").order_by("root__name", "domain__name", "-number")


class SearchSelect(AutocompleteSelect):
    """A choice among too many rows for a list: the browser asks for those that match what is typed."""

    def __init__(self, field: Any) -> None:
        super().__init__(field, admin.site, attrs={"class": "unfold-admin-autocomplete"})

    @property
    def media(self) -> forms.Media:
        """The scripts in the admin's own look."""
        media: forms.Media = UnfoldAdminAutocompleteWidget().media
        return media


class RootForm(ServiceForm):
    """Register a checkpoint as a root."""

    corpus = forms.ModelChoiceField(
        queryset=_platform_corpora(), widget=UnfoldAdminSelectWidget, help_text="A corpus of the platform's."
    )
    lower = forms.IntegerField(
        required=False,
        min_value=1,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Layers below the cut; half of them when left empty.",
    )
    alpha = _alpha_field()

    class Meta:
        model = Root
        fields = ("name", "source")

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return root_register(
            name=data["name"],
            source=data["source"],
            corpus=data["corpus"],
            lower=data["lower"],
            alpha=data["alpha"],
            actor=actor,
        )


class DomainForm(ServiceForm):
    """Create a domain of the platform's."""

    parent = forms.ModelChoiceField(
        queryset=_ready_parents().filter(tenant=None),
        widget=UnfoldAdminSelectWidget,
        help_text="The ready version of a root or domain that this domain grows from.",
    )
    corpus = forms.ModelChoiceField(queryset=_platform_corpora(), widget=UnfoldAdminSelectWidget)
    alpha = _alpha_field()

    class Meta:
        model = Domain
        fields = ("name", "description")

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return domain_create(
            tenant=None,
            parent=data["parent"],
            name=data["name"],
            description=data["description"],
            corpus=data["corpus"],
            alpha=data["alpha"],
            actor=actor,
        )


class DomainUpdateForm(ServiceForm):
    """Teach a domain more text: saving makes its next version."""

    corpus = forms.ModelChoiceField(queryset=Corpus.unscoped.none(), widget=UnfoldAdminSelectWidget)
    alpha = _alpha_field()

    class Meta:
        model = Domain
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = Corpus.unscoped.filter(tenant=self.instance.tenant_id) | _platform_corpora()
        self.fields["corpus"].queryset = own  # type: ignore[attr-defined]

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return domain_update(domain=self.instance, corpus=data["corpus"], alpha=data["alpha"], actor=actor)


class HplmForm(ServiceForm):
    """Create an hPLM of a tenant's."""

    parent = forms.ModelChoiceField(
        queryset=_ready_parents(),
        widget=UnfoldAdminSelectWidget,
        help_text="The ready version that it grows from, the platform's or the tenant's.",
    )
    chosen_dataset = forms.ModelChoiceField(
        label="Dataset",
        queryset=Dataset.unscoped.select_related("tenant"),
        widget=SearchSelect(Version._meta.get_field("dataset")),
        help_text="A dataset of the tenant's; its task is the hPLM's.",
    )

    class Meta:
        model = Hplm
        fields = ("tenant", "name")

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return hplm_create(
            tenant=data["tenant"],
            name=data["name"],
            parent=data["parent"],
            dataset=data[DATASET],
            actor=actor,
        )


class HplmUpdateForm(ServiceForm):
    """Teach an hPLM from new data: saving makes its next version."""

    chosen_dataset = forms.ModelChoiceField(
        queryset=Dataset.unscoped.none(),
        widget=UnfoldAdminSelectWidget,
        label="New data",
        help_text="A dataset of the tenant's, for the same task.",
    )
    auto_promote = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        label="Promote",
        help_text="Once the new version is ready, the alias default points at it.",
    )

    class Meta:
        model = Hplm
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fitting = Dataset.unscoped.filter(tenant=self.instance.tenant_id, task=self.instance.task)
        self.fields[DATASET].queryset = fitting.select_related("tenant")  # type: ignore[attr-defined]

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return hplm_update(
            hplm=self.instance, dataset=data[DATASET], auto_promote=data["auto_promote"], actor=actor
        )


class AliasForm(ServiceForm):
    """Move an alias to another ready version of its hPLM."""

    reason = forms.CharField(required=False, max_length=200)

    class Meta:
        model = Alias
        fields = ("version",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ready = Version.unscoped.filter(hplm=self.instance.hplm_id, state=VersionState.READY)
        self.fields["version"].queryset = ready.select_related("hplm__tenant", "root", "domain")  # type: ignore[attr-defined]

    def act(self, actor: Any) -> Alias:
        data = self.cleaned_data
        return alias_move(
            hplm=self.instance.hplm,
            name=self.instance.name,
            version=data["version"],
            actor=actor,
            reason=data["reason"],
        )
