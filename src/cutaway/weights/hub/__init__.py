"""Bringing files here from the Hugging Face Hub: which, by what way, and whether they are the right ones. Begin in `weights.fetch`."""
