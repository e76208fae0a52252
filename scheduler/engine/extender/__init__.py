"""Attempts in which extenders have a word."""
