"""Experiments on real text and on small Transformers (extras `torch` and `text`), and what several of them share."""
