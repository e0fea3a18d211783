"""The hash specification in another language."""
