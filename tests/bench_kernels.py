"""Microseconds that the kernels take for a document, by language, unit and step: python -m tests.bench_kernels.

One process and one core; every figure is the least of several rounds, which take turns so that a busy machine slows
all alike. Only ratios within one run say anything.
"""
# ruff: noqa: RUF001 - other scripts are what is measured

import argparse
import random
import time
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels import features
from dedup.kernels.sets import lsh, minhash, shingles
from dedup.kernels.text.markup import Unmarked
from dedup.kernels.text.single_characters import SingleCharacters
from dedup.kernels.text.token_ids import TokenIds
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.truth import DATA

BYTES, DOCUMENTS, ROUNDS = 1400, 300, 7
BANDS, ROWS, SHINGLE_SIZE = 21, 6, 5
LANGUAGES = {
    "English": "The committee will meet again on Thursday, when members are expected to vote on the proposal; "
    "a report published in March (page 12) described what had been learned about the water supply of both towns.",
    "French": "Le comité se réunira à nouveau jeudi, où l'on s'attend à ce que ses membres votent la proposition ; "
    "un rapport publié en août décrivait déjà les leçons tirées de la forêt près du château où naît le fleuve.",
    "Russian": "Комитет соберётся снова в четверг, когда его члены, как ожидается, проголосуют за предложение; "
    "в докладе, опубликованном в марте, описано, что стало известно о водоснабжении обоих городов.",
    "Greek": "Η επιτροπή θα συνεδριάσει ξανά την Πέμπτη, όταν τα μέλη της αναμένεται να ψηφίσουν την πρόταση· "
    "Στην έκθεση του Μαρτίου περιγράφεται τι έγινε γνωστό για την ύδρευση των δύο πόλεων.",
    "Arabic": "ستجتمع اللجنة مرة أخرى يوم الخميس، ومن المتوقع أن يصوت الأعضاء على الاقتراح؛ "
    "ووصف تقرير نُشر في آذار ما عُرف عن إمدادات المياه في المدينتين وعن الإصلاحات المقبلة.",
    "Hindi": "समिति की बैठक गुरुवार को फिर होगी, जब सदस्यों के प्रस्ताव पर मतदान करने की उम्मीद है; "
    "मार्च में प्रकाशित एक रिपोर्ट में बताया गया था कि दोनों शहरों की जल आपूर्ति के बारे में क्या पता चला और बड़े सुधार।",
    "Korean": "위원회는 목요일에 다시 모일 예정이며 그때 위원들이 제안에 대해 투표할 것으로 예상된다. "
    "삼월에 발표된 보고서는 두 도시의 상수도에 대해 알려진 것을 설명했다.",
    "Chinese": "委员会将于星期四再次开会，届时预计成员将对提案进行表决；三月发表的一份报告描述了两个城镇供水的情况。",
    "Japanese": "委員会は木曜日に再び開かれ、委員は提案について投票する見込みだ。"
    "三月に発表されたレポートは、二つの町の水道について述べた。",
    "emoji": "so happy 😀 see you on Friday 🎉🎉 bring snacks 🍕 and the dog 🐶 ok 👍🏽 love ❤️ "
    "family 👨‍👩‍👧 flag 🇫🇷 done ✅",
}


def write(sample, seed=1):
    """Return documents of about BYTES bytes of a sample's words, or of its characters where it has no spaces."""
    chance = random.Random(seed)
    words, space = (sample.split(), " ") if " " in sample else (list(sample), "")
    size = BYTES * len(words) // len(sample.encode())
    return pa.array([space.join(chance.choices(words, k=size)) for _ in range(DOCUMENTS)], pa.large_string())


def run_chain(texts, tokenizer):
    """Run the kernels one after the other; return the seconds of each."""
    marks = [time.perf_counter()]

    def mark(result):
        marks.append(time.perf_counter())
        return result

    tokens, bounds = mark(tokenizer.hash(texts))
    values, offsets = mark(shingles.shingle(tokens, bounds, SHINGLE_SIZE, tokenizer))
    mark(shingles.digest(values, offsets))
    signatures = mark(minhash.sign(values, offsets, BANDS * ROWS, 1))
    mark(lsh.band_keys(signatures, BANDS, ROWS))
    mark(minhash.low_bytes(signatures))
    mark(features.compute(texts, tokenizer, shingle_size=SHINGLE_SIZE, bands=BANDS, rows=ROWS, seed=1))
    return [end - start for start, end in pairwise(marks)]


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer-file", type=Path, help="measure token ids of this tokenizer as well")
    options = parser.parse_args()
    texts = {name: write(sample) for name, sample in LANGUAGES.items()}
    tokenizers = dict.fromkeys(texts, UnicodeWords())
    units = {"words": UnicodeWords(), "char": SingleCharacters(), "stems": UnicodeWords(stemming="english")}
    units |= {markup: Unmarked(tokenizer=UnicodeWords(), markup=markup) for markup in ("html", "markdown")}
    if options.tokenizer_file:
        units["ids"] = TokenIds(content=options.tokenizer_file.read_bytes())
    # Real text, each of whose shingles is another: what signatures cost depends on how many there are.
    real = pq.read_table(DATA / "history.parquet")["text"].slice(0, DOCUMENTS).combine_chunks().cast(pa.large_string())
    texts |= {f"real, {unit}": real for unit in units}
    tokenizers |= {f"real, {unit}": tokenizer for unit, tokenizer in units.items()}
    measured = {name: [] for name in texts}
    for _ in range(ROUNDS):
        for name, documents in texts.items():
            measured[name].append(run_chain(documents, tokenizers[name]))
    steps = "tokens", "shingles", "digest", "sign", "keys", "low bytes", "at once"
    print(f"{'us a document':13} {'bytes':>6}", *(f"{step:>9}" for step in (*steps, "ns a byte")))
    plain = None
    for name, rounds in measured.items():
        least = [min(each) * 1e6 / DOCUMENTS for each in zip(*rounds, strict=True)]
        size = texts[name].nbytes / DOCUMENTS - 8
        share = least[-1] * 1000 / size
        plain = plain or share
        cells = [f"{each:9.2f}" for each in (*least, share)]
        print(f"{name:13} {size:6.0f}", *cells, f"{share / plain:5.2f} x English")


if __name__ == "__main__":
    main()
