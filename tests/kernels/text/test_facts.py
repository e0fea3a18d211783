"""Facts that two texts must share, in three languages."""

import numpy as np
import pytest

from dedup.kernels.text.facts import FACT_BYTES, KINDS, are_exchanged, digest_facts, read_facts, share_names

PAIRS = [
    ("numbers", "It costs 1,234.5 of them.", "It costs 1.234,5 of them.", True),
    ("numbers", "1 000 000 people", "1,000,000 people", True),
    ("numbers", "twenty-one ships", "20 ships", False),
    ("numbers", "three ships", "3 ships", True),
    ("numbers", "from 3 to 5", "5 from 3", True),
    ("numbers", "3 and 3", "3", False),
    ("numbers", "-5 degrees", "5 degrees", False),
    ("numbers", "\u22125 degrees", "-5 degrees", True),
    ("numbers", "a 1.500 b", "a 1500 b", False),
    ("numbers", "zweiundzwanzig Schiffe", "22 Schiffe", False),
    ("numbers", "zweiundzwanzig Schiffe", "dreiundzwanzig Schiffe", False),
    ("numbers", "deux navires", "trois navires", False),
    ("dates", "on Monday in May", "on Tuesday in May", False),
    ("dates", "it may rain", "it will rain", True),
    ("dates", "am Montag", "on Monday", True),
    ("dates", "en janvier", "en février", False),
    ("units", "5 km from here", "5 kilometres from here", True),
    ("units", "5 km from here", "5 mi from here", False),
    ("units", "12kg of it", "12 g of it", False),
    ("units", "20 %", "20 percent", True),
    ("units", "20 $", "20 €", False),
    ("units", "in drei Wochen", "in drei Monaten", False),
    ("negations", "They do not agree.", "They agree.", False),
    ("negations", "They don't agree.", "They do not agree.", True),
    ("negations", "They don\u2019t agree.", "They don't agree.", True),
    ("negations", "Er kommt nicht.", "Er kommt.", False),
    ("negations", "Sie haben keine Zeit.", "Sie haben Zeit.", False),
    ("negations", "Il ne vient pas.", "Il vient.", False),
    ("negations", "He never came.", "He came.", False),
    ("comparisons", "It is more than before.", "It is less than before.", False),
    ("comparisons", "Es ist größer.", "Es ist kleiner.", False),
    ("comparisons", "avant la guerre", "après la guerre", False),
    ("quantities", "All members came.", "Some members came.", False),
    ("quantities", "Alle kamen.", "Einige kamen.", False),
    ("quantities", "toujours ouvert", "souvent ouvert", False),
    ("quotes", "She said \u201cyes\u201d.", 'She said "yes".', True),
    ("quotes", "She said \u201cyes\u201d.", "She said \u201cno\u201d.", False),
    ("quotes", "Sie sagte \u201eja\u201c.", "Sie sagte \u00abja\u00bb.", True),
    ("numbers", "GPL 3+, or GPL3+", "GPL 3, or GPL3", False),
    ("numbers", "3 + 4", "3 and 4", True),
    ("addresses", "see <https://vivaldi.com/>.", "see https://vivaldi.com", True),
    ("addresses", "see https://vivaldi.com", "see https://www.opera.com", False),
    ("addresses", "mail to a@example.org", "mail to b@example.org", False),
    ("addresses", "call move_disk", "call copy_disk", False),
    ("addresses", "It ends. Then 3.5 e.g. more.", "It ends!", True),
]


@pytest.mark.parametrize(("kind", "one", "other", "same"), PAIRS)
def test_texts_share_a_fact_or_not(kind, one, other, same):
    assert (sorted(read_facts(one)[kind]) == sorted(read_facts(other)[kind])) == same
    place = slice(KINDS.index(kind) * FACT_BYTES, (KINDS.index(kind) + 1) * FACT_BYTES)
    assert (digest_facts(one).digests[place] == digest_facts(other).digests[place]) == same


NAMED = [
    ("then Anna met Ben", "then Ben was met by Anna", True),
    ("then Anna met Ben", "then Anna met Emma", False),
    ("then Anna met Ben", "then Anna met him", False),
    ("then Anna's boat sank", "then the boat of Anna sank", True),
    ("Paris lies on a river.", "London lies on a river.", False),
    ("Paris lies on a river.", "It is a river on which Paris lies.", True),
    ("The river is long.", "A river is long.", True),
    ("Rivers are long.", "These rivers are long.", True),
    ("Rivers are long. All rivers are.", "Boats are long. All boats are.", True),
    ("Der Rat von Wien tagt.", "In Wien tagt der Senat.", True),
    ("Der Rat von Wien tagt.", "In Bern tagt der Rat.", False),
    ("l'Italie est belle", "d'Italie", True),
    ("l'Italie est belle", "l'Espagne est belle", False),
    ("C'est ici.", "C'est là.", True),
    ("the US left NATO", "the UK left NATO", False),
]


@pytest.mark.parametrize(("one", "other", "same"), NAMED)
def test_texts_have_the_same_names_or_not(one, other, same):
    found = [[np.frombuffer(each, "<u8") for each in digest_facts(text)[1:]] for text in (one, other)]

    assert share_names(*found) == same
    assert share_names(*found[::-1]) == same


def test_a_text_without_a_fact_has_none():
    assert not any(read_facts("").values())
    assert not any(read_facts("the dog is barking").values())


@pytest.mark.parametrize(
    ("one", "other", "exchanged"),
    [
        ("the plan was approved", "the plan was rejected", True),
        ("the plan was approved", "the plan was approved", False),
        ("dog bites man", "man bites dog", True),
        ("a b c d e f", "f e d c b a", True),
        ("a b c d e f", "a x y z e f", True),
        ("a b c d e f", "a w x y z f", False),
        ("the plan was approved", "approved was the plan at last", False),
        ("the plan was sold", "the plan was not yet sold", True),
        ("the plan was sold", "the plan was kept for now", True),
        ("this is an alias of run", "that thing is an alias of run", True),
        ("a b c", "x y z c", False),
    ],
)
def test_words_exchanged_in_their_places_part_texts(one, other, exchanged):
    hashes = [np.array([hash(word) % 2**64 for word in text.split()], np.uint64) for text in (one, other)]

    assert are_exchanged(*hashes) == exchanged
