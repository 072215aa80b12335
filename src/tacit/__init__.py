"""Tacit: learn the constraints that nobody wrote down."""

__version__ = "0.1.0"
