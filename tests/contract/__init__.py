"""The contract of a store: one suite, both implementations. Tests carry the number of the promise they hold."""
