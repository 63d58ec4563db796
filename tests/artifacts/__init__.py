"""Outputs and scratch on a real disk."""
