"""The stage of the layer of passages: grams, windows and pieces travel, never pairs; `dedup.layers.passages`."""

import math

from dedup.plan.profile import Profile
from dedup.plan.rates import Rates
from dedup.plan.rows import Rows
from dedup.plan.shuffles import AUTO_BROADCAST_BYTES, INPUT_SPLIT_BYTES, PLACE_BYTES, ROW_BYTES, Item, Stage

GRAM_BYTES, SHARED_BYTES, WINDOW_BYTES, REPEATED_BYTES = 16, 8, 19, 16
"""A gram, one that occurs twice, a window and one that occurs twice after LZ4, of 24, 16, 32 and 40 bytes in blocks:
what it leaves of columns of random hashes and ids, the ids and places of documents standing together or not."""
RANKED_BYTES = 11
"""A window among those of its document, a hash and its place, after LZ4."""
RANGE_BYTES, DIGESTED_BYTES = 10, 150
"""A place that is to be read, and the digest of what stands there with ids and a beginning of the text, after LZ4."""
ID_BYTES = 8
"""Integers: their order is that of the documents, which otherwise are ranked with all they bring."""
REGISTER_BYTES = 60
"""A document as the layer stores it, without what it selects."""


def find_passages(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage | None:
    """Plan the layer, None where a sample has not told what it finds."""
    if not rows.reaching:
        return None
    places = 2 * rows.pieces
    asked = Item(what="documents to read again, and their grams", count=rows.shared_grams, each=4)
    shuffle = [
        Item(what="grams selected", count=rows.grams, each=GRAM_BYTES),
        Item(what="grams that occur twice", count=rows.shared_grams, each=SHARED_BYTES),
        asked,
        Item(what="windows in question", count=rows.asked_windows, each=WINDOW_BYTES),
        Item(what="windows that occur twice", count=rows.repeated_windows, each=REPEATED_BYTES),
        Item(what="places of pieces", count=places, each=RANGE_BYTES),
        Item(what="digests of pieces, thrice", count=3 * places, each=DIGESTED_BYTES),
    ]
    if corpus.id_bytes != ID_BYTES:
        shuffle.append(Item(what="windows of documents to be ranked", count=rows.asked_windows, each=RANKED_BYTES))
    if asked.bytes + 8 * rows.asked > AUTO_BROADCAST_BYTES:
        shuffle.append(Item(what="places of documents", count=rows.reaching, each=PLACE_BYTES + ROW_BYTES))
    text_bytes = rows.reaching * corpus.text_bytes
    return Stage(
        name="passages",
        shuffle=shuffle,
        tables=[
            Item(what="documents", count=rows.reaching, each=REGISTER_BYTES + corpus.id_bytes),
            Item(what="grams selected", count=rows.grams, each=12),
            Item(what="windows in question", count=rows.asked_windows, each=12),
            Item(what="digests of pieces, thrice", count=3 * places, each=DIGESTED_BYTES),
        ],
        partitions=max(cores, math.ceil(text_bytes / INPUT_SPLIT_BYTES)),
        core_seconds=rows.tokens * rates.token
        + rows.repeated_windows * rates.window
        + text_bytes * rates.scanned_byte * (1 + rows.asked / rows.reaching),
    )
