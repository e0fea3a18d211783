"""A store of signatures: the features of all batches of a corpus, on tables of Delta Lake."""
