"""Sizes at which every claim has its verdict of the default size, in a few seconds."""

SMALL: dict[str, dict] = {}
