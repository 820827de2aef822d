"""Dynamics: how parameters move."""
