"""The screen of dead letters."""

from .pane import DeadPane

__all__ = ["DeadPane"]
