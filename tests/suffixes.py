"""Repeated windows by a suffix array of the whole corpus: what the layer `passages` must find, found another way."""

import numpy as np
import pydivsufsort

from tests import oracles


def find_repeated(texts, length):
    """Return the windows of so many tokens that occur twice, and of each the first, as (text, token).

    Equal windows are neighbours among the suffixes in order [1]_. A number of its own parts every text from the next,
    so that no two suffixes agree beyond the end of a text.

    References
    ----------
    .. [1] U. Manber, G. Myers: Suffix arrays: a new method for on-line string searches. SODA 1990.
    """
    numbers: dict[str, int] = {}
    tokens, owners = [], []
    for text, content in enumerate(texts):
        found = [numbers.setdefault(token, len(numbers)) for token in oracles.tokens(content)]
        tokens += [*found, -1 - text]
        owners += [(text, place) for place in range(len(found) + 1)]
    sequence = np.array(tokens, dtype=np.int32)
    suffixes = pydivsufsort.divsufsort(sequence)
    # Of each suffix, how many tokens it shares with the one that follows in order.
    shared = pydivsufsort.kasai(sequence, suffixes) >= length
    first = {}
    begin = 0
    for last in np.flatnonzero(~shared).tolist():
        if last > begin:
            same = [owners[suffix] for suffix in suffixes[begin : last + 1].tolist()]
            first |= dict.fromkeys(same, min(same))
        begin = last + 1
    return first
