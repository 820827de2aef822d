"""What will happen, said before any training: the order of tokens, the sign and rate of focus, and the times of both.

A source of statistics (a corpus, sequence classes, a Markov chain) and the learning rates go in; a record of predictions comes
out, each with the assumptions it leans on. Nothing here has seen a training run: closed forms come from `theory`, and paths from
flows of the population, which know the statistics and no sample. `score.py` compares them with
what was measured.
"""
