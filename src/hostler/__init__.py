"""Hostler looks after the inference engines of a few GPU boxes that several parties share."""

__version__ = "0.1.0"
