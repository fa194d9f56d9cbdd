"""What people and programs may do with a store, whoever asks: the terminal, the CLI and the HTTP API call nothing else.

Every operation is a read, or a message (or a decision) with its audit row in the same transaction. Who acts is a
`principal.Principal`; what it may do is checked here, once, and refused with the same errors everywhere.
"""
