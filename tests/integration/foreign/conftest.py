"""The sites of archives, for adapters that come from elsewhere."""

from tests.integration.archives.conftest import models, site, tried_here

__all__ = ["models", "site", "tried_here"]
