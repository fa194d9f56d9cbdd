"""LangGraph: its checkpoints on our store, and its graphs as runs. Nothing outside of this folder imports LangGraph."""
