"""What the contract suite cannot say: how the PostgreSQL store behaves on a real server, and what it costs there."""
