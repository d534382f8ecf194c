"""The forms of uploads, and the live part of a job."""

import csv
from io import BytesIO, StringIO

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tenants.datasets.selectors.uploads import uploads_of
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.uploads import upload_create, upload_receive
from tests.e2e.world import World, tickets_file
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.tree.services.hplms import hplm_create


def test_the_live_part_of_a_running_job_asks_again_and_that_of_an_ended_one_does_not(
    owner: Client, world: World
) -> None:
    running = hplm_create(
        tenant=world.tenant, name="slow", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    for version, expected in ((running, True), (world.hplm, False)):
        page = owner.get(f"/t/acme/jobs/{jobs_in_order(version)[0].pk}/progress/").content.decode()
        assert ('hx-trigger="sse:changed, refresh' in page) is expected


def test_what_is_wrong_with_a_file_stands_at_its_field_folded_away_or_not(
    owner: Client, world: World
) -> None:
    upload = {"name": "Tickets of May", "task": "classification"}
    good = SimpleUploadedFile("train.jsonl", tickets_file().getvalue())
    bad = SimpleUploadedFile("test.csv", b"\x89PNG\r\n\x1a\n")
    page = owner.post("/t/acme/data/datasets/new/", upload | {"train": good, "test": bad})
    assert list(page.context["form"].errors) == ["test"]
    assert '<details class="more" id="more">' in page.content.decode()
    good.seek(0)
    folded = {"task": "multilabel", "separator": "and"}
    page = owner.post("/t/acme/data/datasets/new/", upload | folded | {"train": good})
    assert list(page.context["form"].errors) == ["separator"]
    assert '<details class="more" id="more" open>' in page.content.decode()


def test_a_form_with_files_of_its_own_stores_them_without_any_script(owner: Client, world: World) -> None:
    file = SimpleUploadedFile("train.jsonl", tickets_file().getvalue())
    fields = {"name": "Tickets of May", "task": "classification", "train": file}
    page = owner.post("/t/acme/data/datasets/new/", fields, follow=True)
    assert "Dataset Tickets of May saved." in page.content.decode()
    assert not uploads_of(world.tenant, world.owner).exists()


def test_what_came_with_a_refused_form_is_not_kept(owner: Client, world: World) -> None:
    fields = {
        "name": "Bad",
        "task": "classification",
        "train": SimpleUploadedFile("a.csv", b"text,kind\na,b\n"),
    }
    page = owner.post("/t/acme/data/datasets/new/", fields)
    assert "no column" in page.content.decode()
    assert '<option value="kind">kind (b)</option>' in page.content.decode()
    assert not uploads_of(world.tenant, world.owner).exists()


def test_a_form_without_its_file_says_so(owner: Client, world: World) -> None:
    page = owner.post("/t/acme/data/datasets/new/", {"name": "None", "task": "classification"})
    assert page.context["form"].errors == {"train": ["Choose a file."]}


def test_bad_rows_come_as_a_table_in_which_nothing_is_a_formula(owner: Client, world: World) -> None:
    rows = "text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(20)) + '"",=1+1\n'
    upload = upload_receive(
        tenant=world.tenant,
        filename="=x.csv",
        size=len(rows),
        stream=BytesIO(rows.encode()),
        actor=world.owner,
    )
    options = {"task": "classification"}
    check = check_create(
        tenant=world.tenant,
        kind="dataset",
        files={"train": upload},
        actor=world.owner,
        store=False,
        options=options,
    )
    answer = owner.get(f"/t/acme/data/checks/{check.pk}/bad-rows.csv")
    assert answer["Content-Disposition"] == 'attachment; filename="bad-rows.csv"'
    header, row = csv.reader(StringIO(answer.content.decode("utf-8-sig")))
    assert header == ["file", "row", "line", "reason", "content"]
    assert row[:3] == ["'=x.csv", "21", "22"]
    assert "blank" in row[3]


HALF = "<strong>half.txt</strong>"


def test_unfinished_uploads_are_listed_and_can_be_thrown_away(
    owner: Client, client: Client, world: World
) -> None:
    upload = upload_create(tenant=world.tenant, filename="half.txt", size=1000, actor=world.owner)
    assert HALF in owner.get("/t/acme/data/").content.decode()
    address = f"/t/acme/data/uploads/{upload.pk}/delete/"
    client.force_login(world.developer)
    assert HALF not in client.get("/t/acme/data/").content.decode()
    assert client.post(address).status_code == 404
    client.force_login(world.owner)
    assert client.post(address).status_code == 302
    assert HALF not in client.get("/t/acme/data/").content.decode()
