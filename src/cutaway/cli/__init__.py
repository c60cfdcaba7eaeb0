"""The command line: one file a command. It parses and prints; what it prints is computed elsewhere."""
