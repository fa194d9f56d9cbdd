"""The failures that other systems met in the field, each with a test from outside that is named after it."""
