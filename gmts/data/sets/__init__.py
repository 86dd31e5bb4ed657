"""The training sets and benchmarks that gmts knows by name."""
