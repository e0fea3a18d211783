"""The settings of a job: each option with its rule and its text, files and presets, the text contract."""
