"""The memory store: the whole protocol and its guarantees without persistence, for tests, the simulator and trying out.

Several nodes of one process share one `MemoryStore`. Nothing in it awaits while it reads or writes, so that each
operation is a transaction by itself; the hooks of `MemoryStore` put the waiting and the faults around it.
"""

from .session import MemorySession
from .store import MemoryStore

__all__ = ["MemorySession", "MemoryStore"]
