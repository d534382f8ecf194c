"""Admin forms that stand for a service: what the service would refuse is shown at the form."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django import forms
from django.db import transaction
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
)

from tenants.admin.base import ModelForm
from tenants.errors import HmiError
from tenants.models import Corpus
from versiontree.models import Alias, Domain, Root, Version
from versiontree.models.version import VersionKind, VersionState
from versiontree.services.aliases import alias_move
from versiontree.services.domains import domain_create, domain_update
from versiontree.services.roots import root_register
from versiontree.training_settings import DEFAULT_ALPHA


class _Rehearsed(Exception):
    """Undoes a rehearsal."""


def rehearse(act: Callable[[], object]) -> None:
    """Do it, undo it, and turn what was refused into a form error."""
    try:
        with suppress(_Rehearsed), transaction.atomic():
            act()
            raise _Rehearsed
    except HmiError as error:
        raise forms.ValidationError(error.message, code=str(error.code)) from error


class ServiceForm(ModelForm):
    """A form whose ``act`` is rehearsed once its fields are valid, and done when it is saved."""

    def act(self, actor: Any) -> Any:
        """Call the service."""
        raise NotImplementedError

    def clean(self) -> Any:
        """Refuse what the service refuses."""
        cleaned = super().clean()
        if not self.errors:
            rehearse(lambda: self.act(None))
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
        queryset=Version.unscoped.filter(
            tenant=None, state=VersionState.READY, kind__in=[VersionKind.ROOT, VersionKind.DOMAIN]
        ).select_related("root", "domain__root"),
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
