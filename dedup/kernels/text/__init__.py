"""Texts to tokens, lines and passages: where each stands, and its hash."""
