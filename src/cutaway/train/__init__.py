"""Training: passages in, weights out. One process, one optimizer, exact resume."""
