"""The report only shows: it reads records and what lies beside them, and imports neither JAX nor PyTorch."""
