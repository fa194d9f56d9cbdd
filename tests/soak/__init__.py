"""The long storms: a tenth of `make soak`, and what they judge by, each rule shown to fail."""
