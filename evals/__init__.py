"""Is the agent good, safe and cheap? Tasks, scorers and reports."""
