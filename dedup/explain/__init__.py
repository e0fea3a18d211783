"""Why a document went or stayed, from the output of a run alone."""
