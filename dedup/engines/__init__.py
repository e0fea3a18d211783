"""What a run does between its passes over the text, in one process."""
