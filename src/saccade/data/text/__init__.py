"""Real text: from a name or a path to ranked token ids on disk and their statistics. Start in
`corpus.py`.
"""
