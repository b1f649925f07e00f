"""Adapters to copy."""
