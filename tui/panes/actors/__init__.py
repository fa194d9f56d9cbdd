"""The screen of actors."""

from .pane import ActorsPane

__all__ = ["ActorsPane"]
