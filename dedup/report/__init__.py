"""What a run did: numbers, plots, a page, and what is beyond its limits."""
