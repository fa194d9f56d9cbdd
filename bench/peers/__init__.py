"""Other systems on the work that Callboard does, on the same server and in the same minutes."""
