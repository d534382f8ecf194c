"""Run the command `hmi` as ``python -m hmi_client``."""

from hmi_client.cli import main

main()
