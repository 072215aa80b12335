"""Explanations of runs as rules and in words, and checks before learning (`tacit.explain.preflight`)."""

from tacit.explain.explanation import explain, explain_if_possible, refresh_explanation, save_explanation
from tacit.explain.words import in_words

__all__ = ["explain", "explain_if_possible", "in_words", "refresh_explanation", "save_explanation"]
