"""Texts at the edge: tokenizing, windows of long texts, composing answers from arrays. No PyTorch."""
