"""What makes the generated parts of the repository: tables of results, parts of docs and its
figures, notebooks. Not installed.
"""
