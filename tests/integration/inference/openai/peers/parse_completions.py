"""Reads responses and streams as the stock client does, and says what it found in them."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from openai import OpenAI

told = json.load(sys.stdin)


class Product(BaseHTTPRequestHandler):
    """Answers with what the test rendered for an address."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = "chat" if "chat" in self.path else "text"
        is_stream = bool(asked.get("stream"))
        body = told[f"{kind}_stream"] if is_stream else json.dumps(told[kind])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.end_headers()
        self.wfile.write(body.encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Product)
Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
client = OpenAI(api_key="key", base_url=address, _strict_response_validation=True)
talk = {"model": "acme/poet", "messages": [{"role": "user", "content": "Hi"}]}
text = {"model": "acme/poet", "prompt": "Once"}

chat = client.chat.completions.create(**talk)
completion = client.completions.create(**text)
chat_chunks = list(client.chat.completions.create(**talk, stream=True))
# Its type of a text's chunks has no null for the reason, which OpenAI sends until the last one.
lenient = OpenAI(api_key="key", base_url=address)
text_chunks = list(lenient.completions.create(**text, stream=True))
content = chat.choices[0].logprobs.content
json.dump(
    {
        "chat": [choice.message.content for choice in chat.choices],
        "reasons": [choice.finish_reason for choice in chat.choices],
        "bytes": [token.bytes for token in content],
        "alternatives": [[top.token for top in token.top_logprobs] for token in content],
        "total_tokens": chat.usage.total_tokens,
        "text": completion.choices[0].text,
        "text_offset": completion.choices[0].logprobs.text_offset,
        "chat_stream": "".join(each.choices[0].delta.content or "" for each in chat_chunks[:-1]),
        "chat_usage": chat_chunks[-1].usage.total_tokens,
        "text_stream": "".join(each.choices[0].text for each in text_chunks),
    },
    sys.stdout,
)
