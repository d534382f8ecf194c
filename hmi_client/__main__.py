"""``python -m hmi_client``: the command `hmi`."""

from hmi_client.cli import main

main()
