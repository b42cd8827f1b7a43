"""The bench: Hostler beside nginx on the same fake engine, as ratios of one run."""
