"""Direct infer requests: answered on the event loop, without Django's middleware, views and threads.

A `POST /api/v1/infer` with an API key is direct if its headers need nothing else from Django. If its key,
model and limits are cached, the event loop answers it with the functions that the view calls. What is not
cached is looked up in a thread. All other requests, and those refused before they count, go to the view.
"""
