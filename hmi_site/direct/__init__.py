"""The way of infer requests past everything that the others need.

``POST /api/v1/infer`` with an API key is what the product is asked all day, and Django's middleware, views
and threads take longer about it than all the rest. A *plain* call, of which everything that the database
knows was asked a moment ago, is answered here, on the event loop, by the same functions that the view calls.
Whatever is not plain, and whatever is refused before it is counted, goes to the view, which says why.
"""
