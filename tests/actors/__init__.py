"""The actor engine on the memory store, by hand-driven time: one file a concern, tests named by guarantee and rule."""
