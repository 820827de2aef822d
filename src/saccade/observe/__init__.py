"""Observation: what is seen of attention, as plain array functions."""
