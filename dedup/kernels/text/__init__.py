"""Texts cut into tokens, lines and passages: places and hashes."""
