"""The attacks by name. ``python -m benchmarks.product.hostile.attacks NAME SECONDS`` runs one, with
the target as JSON on standard input; prints what it counted, and its processor time, as JSON.

All go to 127.0.0.1, and end by themselves.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.product.hostile import bodies, connections, floods, long_texts, odd_values, templates
from benchmarks.product.hostile.target import Target

Attack = Callable[[Target, float], Counter[str]]
ATTACKS: Final[Mapping[str, Attack]] = {
    "truncated bodies": connections.truncated,
    "idle downloads": connections.idle_downloads,
    "idle static files": connections.idle_statics,
    "slow senders": connections.slow_senders,
    "slow strangers": connections.slow_strangers,
    "64 MiB forms": bodies.forms,
    "JSON amplifiers": bodies.json_bodies,
    "adapter bombs": bodies.adapter_bombs,
    "export floods": bodies.exports,
    "webhook tarpits": bodies.webhook_tarpits,
    "long prompts": long_texts.long_prompts,
    "long words": long_texts.long_words,
    "long lines": long_texts.long_lines,
    "tokenizer fits": long_texts.tokenizer_fits,
    "hostile templates": templates.hostile_templates,
    "odd values": odd_values.odd_values,
    "schema floods": floods.schema_floods,
    "quota at once": floods.quota_at_once,
    "event streams": floods.event_streams,
    "revoked keys": floods.revoked_keys,
    "endless patterns": bodies.endless_patterns,  # last: what it starts may go on when it is over
}


def main() -> None:
    """Attack, print, and end at once: threads that still wait for answers are not waited for."""
    target = Target.read(sys.stdin.read())
    counted = ATTACKS[sys.argv[1]](target, time.monotonic() + float(sys.argv[2]))
    print(json.dumps({"counted": counted, "cpu_s": time.process_time()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
