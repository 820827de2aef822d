"""The vocabulary of experiments: claims with relations, one object per experiment, panels for paper
and screen.
"""
