"""Who acts: actors, turns, nodes, group commit, ownership, supervision and timers."""
