"""The layer of documents that say the same in other words, by vectors and by facts that both must share."""
