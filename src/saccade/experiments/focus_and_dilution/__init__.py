"""Experiments on Focus and Dilution (arXiv 2605.01199), and what several of them share."""
