"""What makes the generated parts of the repository: README tables, parts of docs and its figures,
notebooks. Not installed.
"""
