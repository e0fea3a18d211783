"""A sample of the user's documents: what is read and what is measured."""

import gzip
import json
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from dedup.errors import ConfigError, DataError, SchemaError, StorageError
from dedup.kernels.sets import lsh, minhash, shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.plan import sample
from dedup.plan.answer import answer
from dedup.plan.choice import cost
from dedup.plan.question import PlanQuestion
from dedup.plan.rates import Rates
from dedup.plan.sample import measure_corpus
from dedup.settings.banding import Banding
from dedup.settings.files import load_config
from tests import oracles
from tests.corpora import Corpus

SIZE = 3
TEXTS = [
    "one two three four five six seven eight",
    "one two three four five six seven nine",
    "One two three, four five six seven eight!",
    "nothing of this is anywhere else at all",
    "",
    "one two three four of them, six seven",
    "ten",
]


def measured(path, **options):
    defaults = {
        "text_columns": ["text"],
        "drawn": 100,
        "shingle_size": SIZE,
        "tokenizer": UnicodeWords(),
        "id_bytes": 8,
    }
    return measure_corpus(str(path), **defaults | options)


def write_parquet(path, texts):
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), path)
    return path


def test_all_pairs_are_counted_at_their_similarity(tmp_path):
    found = measured(write_parquet(tmp_path / "a.parquet", [*TEXTS, None]))

    sets = {oracles.shingle_set(each, SIZE) for each in TEXTS} - {frozenset()}
    exact = sorted(float(oracles.jaccard(*pair)) for pair in combinations(sets, 2))
    expected = [similarity for similarity in exact if similarity]
    partners = found.similarities.partners(found.documents)
    # Partners among as many documents as there are, of which those without tokens and of equal sets are not compared.
    pairs = partners / (found.documents - 1) * len(sets) * (len(sets) - 1) / 2
    assert pairs.sum() == pytest.approx(len(expected))
    assert pairs @ found.similarities.jaccard == pytest.approx(sum(expected))
    assert found.documents == 8
    assert found.identical == pytest.approx(1 / 6)
    assert found.tokens == sum(len(oracles.tokens(each)) for each in TEXTS) / 8
    assert found.shingles == sum(len(oracles.shingle_set(each, SIZE)) for each in TEXTS) / 8
    assert found.text_bytes == sum(map(len, TEXTS)) / 8


def test_formats_are_alike(tmp_path):
    numbers = range(len(TEXTS))
    parquet = write_parquet(tmp_path / "a.parquet", TEXTS)
    lines = "".join(json.dumps({"id": n, "text": each}) + "\n" for n, each in zip(numbers, TEXTS, strict=True))
    (tmp_path / "a.jsonl").write_text(lines)
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.write(lines)
    pc.write_csv(pa.table({"id": numbers, "text": TEXTS}), tmp_path / "a.csv")
    folder = tmp_path / "folder" / "below"
    folder.mkdir(parents=True)
    write_parquet(folder / "b.parquet", TEXTS[3:])
    write_parquet(tmp_path / "folder" / "a.parquet", TEXTS[:3])
    (tmp_path / "folder" / "_SUCCESS").write_text("")

    expected = measured(parquet)
    for name in ("a.jsonl", "a.json.gz", "a.csv", "folder"):
        found = measured(tmp_path / name)
        assert found.tokens == expected.tokens, name
        np.testing.assert_array_equal(found.similarities.fixed, expected.similarities.fixed)


def test_what_is_drawn_stands_for_the_whole(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", Corpus(seed=1, mean_tokens=60).chunk(6000)[0])
    whole, part = measured(path, drawn=6000), measured(path, drawn=3000)

    def near(corpus):
        return corpus.similarities.partners(corpus.documents)[corpus.similarities.jaccard > 0.5].sum()

    assert part.documents == whole.documents == 6000
    assert part.tokens == pytest.approx(whole.tokens, rel=0.05)
    # About 450 pairs in the whole and 110 in the half.
    assert near(part) == pytest.approx(near(whole), rel=0.3)
    assert part.identical == pytest.approx(whole.identical, rel=0.6)
    assert near(measured(path, drawn=3000)) == near(part)


def test_long_texts_are_drawn_as_far_as_memory_goes(tmp_path, monkeypatch):
    texts = Corpus(seed=1, mean_tokens=60).chunk(2000)[0]
    path = write_parquet(tmp_path / "a.parquet", texts)
    monkeypatch.setattr(sample, "MOST_BYTES", texts.nbytes // 4)

    found = measured(path, drawn=2000)
    assert 400 < found.drawn.documents < 600
    assert found.documents == found.drawn.total == 2000


def test_a_random_sample_is_scaled_to_what_it_was_drawn_from(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", TEXTS)
    alone, drawn = measured(path), measured(path, sample_of=6001)

    np.testing.assert_allclose(drawn.similarities.partners(6001), 1000 * alone.similarities.partners(7))
    with pytest.raises(
        ConfigError, match=rf"--sample-of must be at least the {len(TEXTS)} documents of --sample \(got 2\)"
    ):
        measured(path, sample_of=2)


def test_a_larger_corpus_has_more_chance_resemblance_and_as_many_relatives(tmp_path):
    found = measured(
        write_parquet(tmp_path / "a.parquet", Corpus(seed=1, mean_tokens=60).chunk(2000)[0]), shingle_size=1
    )
    few, many = found.similarities.partners(2000), found.resize(20_000).similarities.partners(20_000)
    chance = found.similarities.jaccard < 0.1

    assert chance.any()
    assert not chance.all()
    np.testing.assert_allclose(many[chance] / few[chance], 19_999 / 1999)
    np.testing.assert_array_equal(many[~chance], few[~chance])


def test_families_are_told_from_chance(tmp_path):
    words = np.array([f"w{number}" for number in range(10_000)])
    chance = np.random.default_rng(1)

    def families(size, count):
        for _ in range(count):
            original = chance.choice(words, 60)
            for place in range(size):
                edited = original.copy()
                edited[place] = "other"
                yield " ".join(edited)

    alone = [" ".join(chance.choice(words, 60)) for _ in range(800)]
    for size, count, edited in [(2, 100, 200), (40, 5, 200)]:
        texts = [*alone, *families(size, count)]
        found = measured(write_parquet(tmp_path / f"{size}.parquet", texts), shingle_size=5, drawn=1000)
        related = found.similarities.partners(1000)[found.similarities.jaccard > 0.5].sum()
        assert related == pytest.approx(edited / 1000 * (size - 1), rel=0.2)
        assert 1 - found.alone(related) == pytest.approx(0.2, rel=0.25)
        assert found.firsts(related) == pytest.approx((800 + count) / 1000, rel=0.05)


@pytest.mark.parametrize(("bands", "rows"), [(21, 6), (60, 3)])
def test_candidates_are_as_many_as_the_kernels_find(tmp_path, bands, rows):
    texts = Corpus(seed=2, mean_tokens=60).chunk(3000)[0]
    corpus = measured(write_parquet(tmp_path / "a.parquet", texts), drawn=3000)
    values, offsets = shingles.shingle(*UnicodeWords().hash(texts), SIZE, UnicodeWords())
    heads = np.unique(np.frombuffer(b"".join(shingles.digest(values, offsets)), dtype="V16"), return_index=True)[1]
    signatures = minhash.sign(values, offsets, bands * rows, 1)[heads]
    keys = lsh.band_keys(signatures, bands, rows)
    groups = lsh.group(keys.reshape(-1), np.repeat(np.arange(heads.size), bands))
    left, right = (np.concatenate(ends) for ends in zip(*lsh.pairs(*groups, None, 1 << 20), strict=True))
    distinct = np.unique(left * heads.size + right).size

    found = cost(Banding(bands, rows), 0.8, corpus, Rates())
    assert found.candidates * heads.size == pytest.approx(distinct, rel=0.1)
    assert found.bucket_pairs * heads.size == pytest.approx(left.size, rel=0.1)
    members = np.unique(np.concatenate((left, right))).size
    assert found.bucketed * heads.size == pytest.approx(members, rel=0.15)


def test_a_plan_says_that_it_was_measured(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", TEXTS)
    found = answer(PlanQuestion(config=load_config(None, None, ["shingles.shingle_size=3"]), sample=str(path)))

    assert found["corpus"]["source"].startswith("measured on 7 of 7 documents")
    assert found["corpus"]["documents"] == 7


@pytest.mark.parametrize(
    ("name", "content", "error", "said"),
    [
        ("a.parquet", b"no parquet", DataError, "cannot be read"),
        ("a.jsonl", b'{"text": "a"\n', DataError, "JSON"),
        ("a.txt", b"a text", DataError, "two documents that differ"),
        ("a.csv", b"id,words\n1,a b\n", SchemaError, "id, words"),
        ("a.jsonl", b'{"text": "one text"}\n{"text": "One text"}\n', DataError, "two documents that differ"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_line(tmp_path, name, content, error, said):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(error, match=said) as refusal:
        measured(tmp_path / name)
    assert "\n" not in str(refusal.value)


def test_a_sample_is_read_compressed_as_a_job_reads_it(tmp_path):
    plain = write_parquet(tmp_path / "a.parquet", TEXTS)
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in TEXTS)
    with pa.CompressedOutputStream(str(tmp_path / "a.jsonl.zst"), "zstd") as stream:
        stream.write(lines)

    assert measured(tmp_path / "a.jsonl.zst").tokens == measured(plain).tokens


def test_a_missing_or_empty_sample_is_refused(tmp_path):
    with pytest.raises(StorageError, match=r"^--sample .*nowhere: .*does not exist"):
        measured(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="has no file"):
        measured(tmp_path)
    with pytest.raises(DataError, match="has none"):
        measured(write_parquet(tmp_path / "a.parquet", pa.array([], pa.string())))
