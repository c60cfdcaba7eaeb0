"""The course's experiments: each a function from models and parameters to measured values."""
