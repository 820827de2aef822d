"""Experiments on Scan and Snap (arXiv 2305.16380), and what several of them share."""
