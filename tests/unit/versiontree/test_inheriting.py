"""What an update takes from a version that another release may have made."""

from versiontree.tree.models import Root, Version
from versiontree.tree.services.settings_inheritance import settings_inherited


def test_settings_that_this_release_does_not_know_are_left_behind() -> None:
    root = Root(name="bert")
    settings = {"lora": 24, "adapter": -1, "device": "cuda", "epochs": "many"}
    imported = Version(root=root, config={"settings": settings})
    assert settings_inherited(imported, {"epochs": 5}) == {"lora": 24, "epochs": 5}
    assert settings_inherited(Version(root=root, config={}), None) == {}
