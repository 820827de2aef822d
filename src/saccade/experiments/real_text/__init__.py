"""Experiments on real text (extras `torch` and `text`), and what several of them share."""
