"""Report of a run: numbers, plots, a page, and alerts."""
