"""Encoder families, found by entry point, and the Protocol that each fulfils."""
