"""What survives: one Store protocol, two stores, the embedded server and the inspector."""
