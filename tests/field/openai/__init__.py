"""Clients of the OpenAI API as people have them."""
