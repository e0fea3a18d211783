"""Signatures against the oracle, and what is counted on the way."""

import pytest

import dedup.stages.exchange
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.stages.documents import Rows
from dedup.stages.exchange import Counters
from dedup.stages.signatures import select_sample, sign_documents
from tests import oracles
from tests.stages import digest, low_bytes, pack, rows, settings, shingles

LONG = " ".join(f"word{number % 97} Ünï{number % 13}" for number in range(600))
TEXTS = [
    b"The quick brown fox jumps over the lazy dog, again and again.",
    "",
    " ,;\n",
    "one",
    "two words",
    "four words make one",
    "exactly five words make one",
    "Äpfel, ﬁsche und 漢字かな ไทย",
    b"\xff not \xc3 utf-8 \x80 at all times",
    LONG,
    LONG + " end",
    "again again again again again again again",
]
DOCUMENTS = [
    (number * 7 - 3, f"id {number}", text.encode() if isinstance(text, str) else text, f"feed {number}")
    for number, text in enumerate(TEXTS)
]
DOCUMENTS += [(None, None, b"an orphan", None), (None, None, b"", None)]
SIZES = {"shingle_size": 5, "bands": 4, "rows": 3, "signature_seed": 9, "sample_share": 0.0}


def sign(spark, partitions=1, documents=DOCUMENTS, **changes):
    frame = spark.createDataFrame(documents, "doc_id long, id string, text binary, source string").repartition(
        partitions
    )
    counters = Counters(spark)
    chosen = {**SIZES, "tokenizer": UnicodeWords(seed=4), **changes}
    return rows(sign_documents(Rows(documents=frame), **chosen, counters=counters)), counters.values()


def expect(size=5, shingle_seed=4, bands=4, rows=3, signature_seed=9):
    expected = []
    for doc_id, name, text, source in DOCUMENTS:
        found = shingles(text, size, shingle_seed)
        signature = oracles.signature(found, bands * rows, signature_seed)
        keys = oracles.band_keys([value & 0xFFFFFFFF for value in signature], bands, rows)
        features = (len(found), *digest(found), pack(keys), low_bytes(signature))
        # Rows that Spark reads have no place, and none is of the sample.
        expected.append((doc_id, name, *features, source, None, None, None, len(text), [], [], None))
    return sorted(expected, key=repr)


def expect_counts(size):
    tokens = [len(oracles.tokens(text)) for _, _, text, _ in DOCUMENTS]
    return {
        "text_bytes": sum(len(text) for _, _, text, _ in DOCUMENTS),
        "tokens": sum(tokens),
        "shingles": sum(len(shingles(text, size)) for _, _, text, _ in DOCUMENTS),
        "documents_empty": tokens.count(0),
        "documents_short": sum(0 < count < size for count in tokens),
        "ids_null": 2,
        "sample_bytes": 0,
    }


@pytest.mark.parametrize("changes", [{"shingle_size": 2, "signature_seed": 0}, {"bands": 1}, {"rows": 1}])
def test_signatures_are_those_of_the_oracle(spark, changes):
    found, _ = sign(spark, **changes)

    assert found == expect(**{"size" if key == "shingle_size" else key: value for key, value in changes.items()})


def test_signatures_are_those_of_the_contract(spark):
    assert sign(spark, tokenizer=UnicodeWords(seed=5))[0] == expect(shingle_seed=5)


def test_a_signature_of_no_rows_leaves_sizes_and_digests(spark):
    found, _ = sign(spark, bands=0)

    assert found == [(*row[:5], b"", b"", *row[7:]) for row in expect()]


def test_a_sample_keeps_the_tokens_of_its_documents(spark):
    frame = spark.createDataFrame(DOCUMENTS[:-2], "doc_id long, id string, text binary, source string")
    chosen = {**SIZES, "tokenizer": UnicodeWords(seed=4), "counters": Counters(spark)}
    tokens = {
        doc_id: pack([oracles.token_hash(token, 4) % 2**32 for token in oracles.tokens(text)][:1024], "<u4")
        for doc_id, _, text, _ in DOCUMENTS[:-2]
    }

    sampled = {
        share: dict(rows(select_sample(sign_documents(Rows(documents=frame), **chosen | {"sample_share": share}))))
        for share in (0.0, 0.5, 1.0)
    }

    assert sampled[0.0] == {}
    assert sampled[1.0] == tokens
    assert sampled[0.5].items() < tokens.items()
    assert sampled[0.5]


@pytest.mark.parametrize("size", [1, 7])
def test_counts_are_exact(spark, size):
    _, counts = sign(spark, shingle_size=size)

    assert counts == expect_counts(size)


@pytest.mark.parametrize(("partitions", "batch", "piece"), [(5, 2, 1 << 19), (2, 10_000, 16)])
def test_partitions_batches_and_pieces_change_nothing(spark, monkeypatch, partitions, batch, piece):
    monkeypatch.setattr(dedup.stages.exchange, "PIECE_BYTES", piece)
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": batch}):
        found, counts = sign(spark, partitions)

    assert found == expect()
    assert counts == expect_counts(5)


def test_ids_of_any_type_come_through_and_no_documents_give_no_signatures(spark):
    frame = spark.createDataFrame([(5, 5, b"text", None)], "doc_id long, id smallint, text binary, source string")
    chosen = {**SIZES, "tokenizer": UnicodeWords(seed=4), "counters": Counters(spark)}

    assert sign_documents(Rows(documents=frame), **chosen).schema["id"].dataType.simpleString() == "smallint"
    assert rows(sign_documents(Rows(documents=frame.limit(0)), **chosen)) == []
    assert [row.id for row in sign_documents(Rows(documents=frame), **chosen).collect()] == [5]


def test_a_batch_of_fewer_words_than_a_shingle_is_signed(spark):
    documents = [
        (number, str(number), text, None) for number, text in enumerate([b"a b c", b"a", b"a b", b"", b"a b c d"])
    ]
    # Each a batch of its own.
    with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 1}):
        found, _ = sign(spark, documents=documents)
    assert [row[2] for row in found] == [len(shingles(text)) for _, _, text, _ in documents]
