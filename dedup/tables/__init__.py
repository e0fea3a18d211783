"""The tables between the stages: their schemas, and what is counted as each is made."""
