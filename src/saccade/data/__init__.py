"""Data with known statistics: sequence classes (Scan and Snap), Markov chains (Focus and Dilution),
and real text (`text`).
"""
