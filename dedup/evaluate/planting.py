"""Edited copies of texts."""

import math
import random

WORD_LENGTH = 20
"""Most characters that words have on average; longer ones are sentences of a script without spaces."""


def split_words(content: str) -> tuple[list[str], str]:
    """Return the words of a text and their separator; its characters where no spaces part words."""
    words = content.split()
    if sum(map(len, words)) > WORD_LENGTH * len(words):
        return list(content), ""
    return words, " "


def edit(
    number: int, chance: random.Random, words: list[str], *, foreign: list[str], target: float, size: float
) -> list[str]:
    """Return the words of a copy about `target` similar: exchanged, with a passage dropped or inserted, in turn."""
    match number % 3:
        case 0:
            # Of n shingles a share s outlives so many exchanges, and as many as were lost are new: J = s / (2 - s).
            lost = min(round(-len(words) / size * math.log(2 * target / (1 + target))), len(words))
            return _exchange(chance, words, foreign, max(lost, 1))
        case 1:
            return _drop(chance, words, max(round(len(words) * (1 - target)), 1))
        case _:
            return _insert(chance, words, foreign, max(round(len(words) * (1 / target - 1)), 1))


def _exchange(chance: random.Random, words: list[str], foreign: list[str], count: int) -> list[str]:
    edited = list(words)
    for place in chance.sample(range(len(words)), count):
        edited[place] = chance.choice(foreign)
    return edited


def _drop(chance: random.Random, words: list[str], count: int) -> list[str]:
    start = chance.randrange(len(words) - count + 1)
    return words[:start] + words[start + count :]


def _insert(chance: random.Random, words: list[str], foreign: list[str], count: int) -> list[str]:
    passage = (foreign * (count // len(foreign) + 1))[:count]
    start = chance.randrange(len(words) + 1)
    return words[:start] + passage + words[start:]
