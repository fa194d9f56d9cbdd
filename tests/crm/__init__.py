"""The support desk: its data, its tools, its model and the checks of its ledger."""
