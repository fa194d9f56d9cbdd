"""The screen of runs."""

from .pane import RunsPane

__all__ = ["RunsPane"]
