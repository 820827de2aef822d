"""Data with known statistics."""
