"""The application that web servers import."""

import subprocess
import sys

STARTED = """
import gc, sys
import hmi_site.asgi
print(gc.get_freeze_count() > len(gc.get_objects()), "frontend.urls" in sys.modules)
"""


def test_a_web_server_spares_the_collector_and_the_first_request_what_is_loaded_for_good() -> None:
    said = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["True", "True"]
