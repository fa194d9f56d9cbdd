"""Other people's loops, graphs and tools, made durable: one file an adapter, none of which the core imports."""
