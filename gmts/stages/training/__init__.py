"""What the train stage does around either trainer: its inputs, its outputs, the two ways."""
