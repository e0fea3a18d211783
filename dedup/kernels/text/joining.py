"""Form in which the texts of several columns stand in one."""

SEPARATOR = "\x1e"
"""Character between the texts of two columns (the record separator of ASCII); within a text a space stands for it."""
