"""Forecasts, made before any training: the order of tokens, the sign and rate of focus, and their
times.

Statistics (a corpus, sequence classes, a Markov chain) and learning rates go in; a record of
predictions comes out, each with its assumptions. Nothing here uses a training run: closed forms
come from `theory`, and paths from population flows, which know the statistics but no sample.
`score.py` compares them with measurements.
"""
