"""The admin: the settings of a training, and what is said of the text before it begins."""

import json
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tenants.accounts.models import User
from tenants.datasets.services.corpora import corpus_upload
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import NO_INLINES
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind, Version
from versiontree.tree.training_settings import setting_specs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


@pytest.fixture
def staff(db: None, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


def settings_shown(client: Client, address: str) -> list[str]:
    """The fields of a form that are folded away as settings."""
    (folded,) = [part for part in client.get(address).context["adminform"] if part.is_collapsible]
    assert folded.name == "Training settings"
    return [field.field.name for line in folded for field in line]


def readable_checkpoint(folder: Path, *, positions: int) -> str:
    """A checkpoint whose tokenizer knows two words."""
    source = Path(tree_factory.checkpoint(folder))
    made = Tokenizer(WordLevel({"[UNK]": 0, "the": 1, "cat": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    (source / "tokenizer.json").write_text(made.to_str())
    about = {"model_type": "bert", "max_position_embeddings": positions}
    (source / "config.json").write_text(json.dumps(about))
    return str(source)


def test_warning_of_cut_texts_follows_the_chosen_longest_text(
    staff: Client, tmp_path: Path, upload_root: Path
) -> None:
    text = corpus_upload(tenant=None, name="fables", stream=stream("the cat\n" * 50), filename="a.txt")
    source = readable_checkpoint(tmp_path / "ckpt", positions=512)
    long = corpus_upload(
        tenant=None, name="long", stream=stream(("the cat " * 8 + "\n") * 8), filename="b.txt"
    )
    for name, corpus, warned in (("fits", text, False), ("cuts", long, True)):
        form = {
            "name": name,
            "kind": "encoder",
            "source": source,
            "corpus": corpus.pk,
            "alpha": "50",
            "max_tokens": "8",
        }
        assert staff.post(reverse("admin:tree_root_add"), form).status_code == 302
        config = Version.unscoped.get(root__name=name).config
        assert ("than the 8 tokens" in str(config.get("warnings"))) is warned


def test_a_root_of_the_hub_is_not_held_against_anything(staff: Client) -> None:
    form = {
        "name": "bert",
        "kind": "encoder",
        "source": "google-bert/bert",
        "corpus": tree_factory.corpus(None, "p").pk,
        "alpha": "50",
    }
    assert staff.post(reverse("admin:tree_root_add"), form).status_code == 302
    assert "warnings" not in Version.unscoped.get(root__name="bert").config


def test_the_settings_of_a_domain_are_folded_away_and_sent(staff: Client, root: Version) -> None:
    text = tree_factory.corpus(None, "medicine")
    add = reverse("admin:tree_domain_add")
    both = (JobKind.FURTHER_PRETRAIN, JobKind.BUILD_PLOT)
    assert set(settings_shown(staff, add)) == {name for kind in both for name in setting_specs(kind)}
    form = {"name": "biomedicine", "parent": root.pk, "corpus": text.pk, "alpha": "40"}
    assert staff.post(add, form | {"distillation_weight": "2", "vectors": "int8"}).status_code == 302
    first = tree_factory.do_jobs(Version.unscoped.get(domain__name="biomedicine"))
    assert (first.config["settings"], first.config["vectors"]) == ({"distillation_weight": 2.0}, "int8")
    change = reverse("admin:tree_domain_change", args=[first.domain_id])
    assert "vectors" in settings_shown(staff, change)
    for number, (asked, stored) in enumerate((("", "int8"), ("float16", "float16")), start=2):
        form = {"corpus": text.pk, "alpha": "40", "tokens": "9", "vectors": asked, **NO_INLINES}
        assert staff.post(change, form).status_code == 302
        version = Version.unscoped.get(domain=first.domain_id, number=number)
        assert (version.config["settings"], version.config["vectors"]) == ({"tokens": 9}, stored)
        tree_factory.do_jobs(version)


def test_a_model_below_a_decoder_has_the_settings_of_decoders(
    staff: Client, acme: TenantFixture, tmp_path: Path
) -> None:
    decoder = tree_factory.ready_decoder(tmp_path)
    texts = tree_factory.dataset(acme.tenant, "texts", task="generation")
    add = reverse("admin:tree_hplm_add")
    form = {"tenant": acme.tenant.pk, "name": "w", "parent": decoder.pk, "chosen_dataset": texts.pk}
    refused = staff.post(add, form | {"pooling": "cls"}).context["adminform"].form.errors
    assert list(refused) == ["pooling"]
    assert "Unknown setting" in refused["pooling"][0]
    asked = {"projections": "attention", "new_tokens": "9", "epochs": "4"}
    assert staff.post(add, form | asked).status_code == 302
    first = tree_factory.do_jobs(Version.unscoped.get(hplm__name="w"))
    chosen = {"projections": "attention", "new_tokens": 9, "epochs": 4}
    assert first.config["settings"] == chosen
    change = reverse("admin:tree_hplm_change", args=[first.hplm_id])
    assert set(settings_shown(staff, change)) == set(setting_specs(JobKind.FINE_TUNE, RootKind.DECODER))
    again = {"chosen_dataset": texts.pk, "projections": "all", **NO_INLINES}
    assert staff.post(change, again).status_code == 302
    second = Version.unscoped.get(hplm=first.hplm_id, number=2)
    assert second.config["settings"] == chosen | {"projections": "all"}
    assert "projections all instead of attention" in str(second.config["warnings"])
