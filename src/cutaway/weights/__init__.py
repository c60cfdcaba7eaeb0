"""From bytes on a disk to tensors with known names, strictly: one reader a format, and a file is right or refused.

Knows nothing of the models the tensors are for.
"""
