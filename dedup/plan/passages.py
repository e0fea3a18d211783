"""The stage of the layer of passages: grams, windows and pieces travel, never pairs; `dedup.layers.passages`."""

import math

from dedup.plan.profile import Profile
from dedup.plan.rates import Rates
from dedup.plan.rows import Rows
from dedup.plan.shuffles import AUTO_BROADCAST_BYTES, INPUT_SPLIT_BYTES, PLACE_BYTES, ROW_BYTES, Item, Stage

REPEATED_BYTES = 30
"""A window that occurs twice, five numbers of 8 bytes, two of them ids, after LZ4."""
RANGE_BYTES, DIGESTED_BYTES, SPAN_BYTES = 35, 80, 60
"""A place that is to be read, the digest of what stands there with the ids, and a span to be cut, after LZ4."""
REGISTER_BYTES = 60
"""A document as the layer stores it, without what it selects."""


def find_passages(rows: Rows, corpus: Profile, cores: int, rates: Rates) -> Stage | None:
    """Plan the layer, None where a sample has not told what it finds."""
    if not rows.reaching:
        return None
    places = 2 * rows.pieces
    asked = Item(what="documents to read again, and their grams", count=rows.shared_grams, each=4)
    shuffle = [
        Item(what="grams selected", count=rows.grams, each=ROW_BYTES),
        Item(what="grams that occur twice", count=rows.shared_grams, each=ROW_BYTES),
        asked,
        Item(what="windows in question", count=rows.asked_windows, each=ROW_BYTES),
        Item(what="windows that occur twice", count=rows.repeated_windows, each=REPEATED_BYTES),
        Item(what="places of pieces", count=places, each=RANGE_BYTES),
        Item(what="digests of pieces", count=places, each=DIGESTED_BYTES),
        Item(what="spans", count=3 * rows.pieces, each=SPAN_BYTES),
    ]
    if asked.bytes + 8 * rows.asked > AUTO_BROADCAST_BYTES:
        shuffle.append(Item(what="places of documents", count=rows.reaching, each=PLACE_BYTES + ROW_BYTES))
    text_bytes = rows.reaching * corpus.text_bytes
    return Stage(
        name="passages",
        shuffle=shuffle,
        tables=[
            Item(what="documents", count=rows.reaching, each=REGISTER_BYTES + corpus.id_bytes),
            Item(what="grams selected", count=rows.grams, each=12),
            Item(what="grams that occur twice", count=2 * rows.shared_grams, each=12),
            Item(what="windows in question", count=rows.asked_windows, each=12),
            Item(what="windows that occur twice", count=rows.repeated_windows, each=REPEATED_BYTES),
            Item(what="pieces, digests and spans", count=rows.pieces, each=4 * DIGESTED_BYTES),
        ],
        partitions=max(cores, math.ceil(text_bytes / INPUT_SPLIT_BYTES)),
        core_seconds=rows.tokens * rates.token
        + rows.repeated_windows * rates.window
        + text_bytes * rates.scanned_byte * (1 + rows.asked / rows.reaching),
    )
