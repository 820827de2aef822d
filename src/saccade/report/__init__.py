"""The report only displays: it reads records and the files next to them, and imports neither JAX
nor PyTorch.
"""
