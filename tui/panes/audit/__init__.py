"""The screen of audit."""

from .pane import AuditPane

__all__ = ["AuditPane"]
