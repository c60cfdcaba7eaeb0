"""From token ids to logits. Knows no published model by name: what separates them comes in as a `Config`."""
