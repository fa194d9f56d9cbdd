"""The screen of system."""

from .pane import SystemPane

__all__ = ["SystemPane"]
