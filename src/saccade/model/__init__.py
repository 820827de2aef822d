"""Models: what is computed from parameters and data, and its gradients."""
