"""How it is run: settings, wiring (the only composition root), operations, daemon and the command line."""
