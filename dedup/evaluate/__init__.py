"""How well settings do, on a sample of a corpus."""
