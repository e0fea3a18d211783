"""Plans of runs: the choice of bands and rows, and the cost, computed without Spark."""
