"""The screen of approvals."""

from .pane import ApprovalsPane

__all__ = ["ApprovalsPane"]
