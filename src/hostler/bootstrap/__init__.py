"""Where adapters are built and joined: the only place that knows them all."""
