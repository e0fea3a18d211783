"""The version of the package, which its parts write into what they make."""

__version__ = "0.1.0"
