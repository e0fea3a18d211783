"""Corpora of families, which curves of single pairs do not tell."""

import numpy as np
import pyarrow as pa

from tests import templates
from tests.corpora import Corpus


def make_chains(count: int, corpus: Corpus | None = None) -> list[str]:
    """Return families of 2 to 40 documents, each an edited copy of one before it, and as many that are alone."""
    corpus = corpus or Corpus(seed=5, mean_tokens=150)
    texts = corpus.chunk(count // 2)[0].to_pylist()
    while len(texts) < count:
        members = [corpus.draw(int(corpus.chance.integers(80, 250)))]
        for _ in range(int(corpus.chance.integers(1, 40))):
            before = members[int(corpus.chance.integers(0, len(members)))]
            members.append(corpus.edit(before, 0.012))
        texts += [" ".join(corpus.words.take(pa.array(member)).to_pylist()) for member in members]
    # Neither in the order of the families nor mixed evenly.
    return [texts[number] for number in np.argsort(corpus.chance.random(count) + np.arange(count) / count)]


def make_templates(count: int) -> list[str]:
    """Return pages of two templates, and families whose members differ each in its own way."""
    half = count // 3
    pages = templates.make_templates(count - half, templates=2).texts
    return pages[: count - half] + templates.make_family(half)
