"""From Condensation to Rank Collapse (arXiv 2510.06954): one experiment a file."""
