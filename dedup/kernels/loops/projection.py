"""Products of sparse rows and matrices: see `dedup.kernels.vectors.latent`."""

from typing import Any

from dedup.kernels.loops.compiler import compiled


@compiled
def multiply(weights: Any, columns: Any, bounds: Any, matrix: Any, found: Any) -> None:  # noqa: ANN401
    """Add to each row of `found` the rows of a matrix that its columns name, by their weights, in this order."""
    for row in range(bounds.size - 1):
        summed = found[row]
        for place in range(bounds[row], bounds[row + 1]):
            weight, added = weights[place], matrix[columns[place]]
            for column in range(summed.size):
                summed[column] += weight * added[column]
