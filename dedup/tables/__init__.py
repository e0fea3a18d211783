"""Tables between the stages: their schemas, and the counts made with each."""
