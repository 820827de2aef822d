"""Records: labelled results, claims about them, and how they are kept on disk."""
