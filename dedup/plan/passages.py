"""Stage of the layer of passages, which moves grams, windows and pieces, never pairs; see `dedup.layers.passages`."""

import math

from dedup.plan.profile import CorpusProfile
from dedup.plan.rates import Rates
from dedup.plan.rows import RowCounts
from dedup.plan.shuffles import AUTO_BROADCAST_BYTES, INPUT_SPLIT_BYTES, PLACE_BYTES, ROW_BYTES, Item, StageCost

GRAM_BYTES, SHARED_BYTES, WINDOW_BYTES, REPEATED_BYTES = 16, 8, 19, 16
"""Bytes after LZ4 of a gram, a shared gram, a window and a repeated window, of 24, 16, 32 and 40 bytes in blocks; ids
and places of one document compress if its rows stand together."""
RANKED_BYTES = 11
"""Bytes after LZ4 of a window sent to its document: a hash and its place."""
RANGE_BYTES, DIGESTED_BYTES = 10, 150
"""Bytes after LZ4 of a place to be read, and of the digest of its tokens with ids and the beginning of a text."""
ID_BYTES = 8
"""Bytes of an integer id, which orders documents by itself; others are ranked together with their payload."""
REGISTER_BYTES = 60
"""Bytes of a document as the layer stores it, without its grams and windows."""


def find_passages(rows: RowCounts, corpus: CorpusProfile, cores: int, rates: Rates) -> StageCost | None:
    """Plan the layer; None if no sample shows its finds."""
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
    return StageCost(
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
