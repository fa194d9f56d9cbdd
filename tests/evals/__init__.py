"""Tests of what measures: that it can measure, with texts of our own."""
