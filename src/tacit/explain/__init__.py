"""What a run has learned, as rules and words, and what can be said before it learns (`tacit.explain.preflight`)."""

from tacit.explain.explanation import explain, save_explanation
from tacit.explain.words import in_words

__all__ = ["explain", "in_words", "save_explanation"]
