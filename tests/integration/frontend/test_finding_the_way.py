"""Where one is: the entry of the navigation that is lit, and the crumbs that lead back up."""

import re

from django.test import Client

from tests.e2e.world import World, nothing_of_use, versions_finish
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.tree.services.hplms import hplm_update

HERE = re.compile(r'<a href="[^"]+" aria-current="page">(?s:.*?)<span>([^<]+)</span></a>')
CRUMB = re.compile(r'<li><a href="([^"]+)">([^<]+)</a></li>')


def where(client: Client, address: str) -> tuple[list[str], list[str]]:
    """The lit entries of the navigation, and the crumbs, of which each leads to a page that is there."""
    page = client.get(f"/t/acme/{address}").content.decode()
    crumbs = CRUMB.findall(page.partition('<ol class="crumbs">')[2].partition("</ol>")[0])
    for target, _ in crumbs:
        assert client.get(target).status_code == 200, target
    return HERE.findall(page.partition('aria-label="Main"')[2].partition("</nav>")[0]), [
        name for _, name in crumbs
    ]


def test_each_page_says_where_it_stands_and_leads_back_up(owner: Client, world: World) -> None:
    assert world.hplm.hplm is not None
    second = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(second, files=nothing_of_use)
    job = jobs_in_order(second)[0]
    domain, up = f"domains/{world.domain.domain_id}/", ["Models", "triage"]
    wanted = {
        "": ("Home", []),
        "models/": ("Models", []),
        "models/triage/": ("Models", ["Models"]),
        "models/triage/versions/2/": ("Models", up),
        "models/triage/versions/2/card/": ("Models", [*up, "v2"]),
        "models/triage/versions/2/answers/": ("Models", [*up, "v2"]),
        "models/triage/versions/2/compare/1/": ("Models", [*up, "v2"]),
        "tree/": ("Version tree", []),
        domain: ("Version tree", ["Version tree"]),
        f"{domain}versions/1/": ("Version tree", ["Version tree", "medicine"]),
        "roots/minilm/versions/1/": ("Version tree", ["Version tree"]),
        "jobs/": ("Jobs", []),
        f"jobs/{job.pk}/": ("Jobs", ["Jobs"]),
        f"jobs/{job.pk}/log/": ("Jobs", ["Jobs", "Fine-tune triage v2"]),
    }
    found = {address: where(owner, address) for address in wanted}
    assert found == {address: ([lit], crumbs) for address, (lit, crumbs) in wanted.items()}
