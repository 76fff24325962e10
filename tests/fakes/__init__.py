"""Servers that tests (and benchmarks) run against: real programs where one exists, our own where it must misbehave."""
