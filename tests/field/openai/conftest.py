"""Generative models and what plays their worker. They are committed, and removed after this folder."""

from tests.integration.inference.generation.conftest import default_scope as default_scope
from tests.integration.inference.generation.conftest import program as program
from tests.integration.inference.generation.conftest import served as served
from tests.integration.inference.generation.conftest import worker as worker
