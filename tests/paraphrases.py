"""Sentences of three languages, each with a paraphrase and a smallest contradiction, drawn by rules.

`python -m tests.paraphrases 3` shows some of each.
"""

import sys
from dataclasses import dataclass
from random import Random

PEOPLE = [
    "Anna",
    "Ben",
    "Clara",
    "David",
    "Emma",
    "Felix",
    "Greta",
    "Hugo",
    "Irma",
    "Jonas",
    "Klara",
    "Leo",
    "Mara",
    "Nils",
]
PLACES = [
    "Paris",
    "Berlin",
    "Madrid",
    "Oslo",
    "Bern",
    "Riga",
    "Porto",
    "Turin",
    "Malta",
    "Gent",
    "Graz",
    "Lyon",
    "Bonn",
    "Bari",
]


@dataclass(frozen=True)
class Language:
    """Words and forms of a language; a form has two wordings that say the same."""

    forms: list
    words: dict
    negations: list
    """What to replace in the first wording, by what."""
    exchanges: list
    """Rules that no guard knows by a list: words for others of another sense."""


ENGLISH = Language(
    forms=[
        (
            "On {day} {month} the {body} of {place} approved the {thing}, which costs {number} million dollars.",
            "The {thing}, costing {number} million dollars, was approved by the {body} of {place} on {day} {month}.",
        ),
        (
            "{who} told {other} that the {thing} was closed because of the {cause}.",
            "{who} informed {other}: owing to the {cause}, the {thing} had to close.",
        ),
        (
            "All {plural} of the {body} met in {place} and discussed the {thing} for {number} hours.",
            "In {place} the {thing} was discussed for {number} hours at a meeting of all {plural} of the {body}.",
        ),
        (
            "The {thing} in {place} is larger than the {second}, and it was finished in {month}.",
            "It was in {month} that the {thing} in {place} was finished; in size it is larger than the {second}.",
        ),
        (
            "Because of the {cause}, the {body} moved the {plural} from {place} to {town}.",
            "The {plural} were moved by the {body} from {place} to {town} on account of the {cause}.",
        ),
        (
            "The {body} found {number} old {plural} under the {thing} of {place} last {month}.",
            "Last {month}, {number} old {plural} came to light under the {thing} of {place}, found by the {body}.",
        ),
    ],
    words={
        "who": PEOPLE,
        "place": PLACES,
        "month": ["January", "March", "April", "June", "August", "October"],
        "body": ["council", "committee", "board", "court", "commission", "assembly"],
        "thing": ["bridge", "museum", "school", "station", "library", "harbour", "theatre"],
        "cause": ["storm", "strike", "flood", "fire", "accident"],
        "plural": ["members", "visitors", "teachers", "workers", "letters", "paintings"],
    },
    negations=[
        ("approved", "did not approve"),
        ("was closed", "was not closed"),
        ("met", "never met"),
        ("was finished", "was not finished"),
        ("moved", "did not move"),
        ("found", "never found"),
        ("All", "Some"),
        ("larger", "smaller"),
        ("last", "next"),
        ("million", "thousand"),
        ("hours", "days"),
    ],
    exchanges=[
        ("approved", "rejected"),
        ("closed", "opened"),
        ("old", "new"),
        ("under", "behind"),
        ("finished", "begun"),
    ],
)
GERMAN = Language(
    forms=[
        (
            "Am {day}. {month} genehmigte der Rat von {place} den Plan, der {number} Millionen Euro kostet.",
            "Genehmigt wurde am {day}. {month} durch den Rat von {place} der Plan, der {number} Millionen Euro kostet.",
        ),
        (
            "{who} sagte, dass {other} wegen des Sturms nicht nach {place} gefahren sei.",
            "{who} sagte, nicht gefahren sei {other}, und zwar wegen des Sturms, nach {place}.",
        ),
        (
            "Alle Gäste der Schule trafen sich in {place} und sprachen {number} Stunden lang.",
            "Getroffen haben sich alle Gäste der Schule in {place}, wo sie {number} Stunden lang miteinander sprachen.",
        ),
        (
            "Das Haus in {place} ist größer als der Turm, und es wurde im {month} gebaut.",
            "Jenes Haus in {place} ist, was seine Maße betrifft, größer als der Turm; gebaut hat man es im {month}.",
        ),
        (
            "Im {month} verlegte das Amt die Messe von {place} nach {town}.",
            "Es war im {month}, dass durch das Amt die Messe von {place} nach {town} verlegt worden ist.",
        ),
    ],
    words={
        "who": PEOPLE,
        "place": PLACES,
        "month": ["Januar", "März", "April", "Juni", "August", "Oktober"],
    },
    negations=[
        ("genehmigte der Rat", "genehmigte der Rat nicht"),
        ("nicht nach", "nach"),
        ("trafen sich", "trafen sich nie"),
        ("wurde im", "wurde nicht im"),
        ("verlegte das Amt", "verlegte das Amt nicht"),
        ("Alle", "Einige"),
        ("größer", "kleiner"),
        ("Millionen", "Milliarden"),
        ("Stunden", "Tage"),
    ],
    exchanges=[("genehmigte", "prüfte"), ("gefahren", "geflogen"), ("sprachen", "schwiegen"), ("gebaut", "zerstört")],
)
FRENCH = Language(
    forms=[
        (
            "Le {day} {month}, le conseil de {place} a approuvé le projet, qui coûte {number} millions d'euros.",
            "À {number} millions d'euros, le projet a été approuvé le {day} {month} par le conseil de {place}.",
        ),
        (
            "{who} a dit à {other} que le musée était fermé à cause de la tempête.",
            "{who} l'a dit à {other} : à cause de la tempête, on avait fermé le musée.",
        ),
        (
            "Tous les élèves du lycée se sont réunis à {place} et ont parlé pendant {number} heures.",
            "Réunis à {place}, les élèves du lycée, tous présents, ont parlé ensemble pendant {number} heures.",
        ),
        (
            "La gare de {place} est plus grande que le port, et on l'a ouverte en {month}.",
            "Ouverte au public en {month}, cette gare de {place} est de taille plus grande que le port.",
        ),
        (
            "En {month}, la commission a transféré les tableaux de {place} à {town}.",
            "Les tableaux ont été transférés par la commission, en {month}, de {place} à {town}.",
        ),
    ],
    words={
        "who": PEOPLE,
        "place": PLACES,
        "month": ["janvier", "mars", "avril", "juin", "août", "octobre"],
    },
    negations=[
        ("a approuvé", "n'a pas approuvé"),
        ("était fermé", "n'était pas fermé"),
        ("se sont réunis", "ne se sont jamais réunis"),
        ("on l'a ouverte", "on ne l'a pas ouverte"),
        ("a transféré", "n'a jamais transféré"),
        ("Tous les", "Quelques"),
        ("plus grande", "moins grande"),
        ("millions", "milliards"),
        ("heures", "jours"),
    ],
    exchanges=[("approuvé", "critiqué"), ("fermé", "ouvert"), ("parlé", "dormi"), ("ouverte", "détruite")],
)
LANGUAGES = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH}
EXCHANGED = {"other": "who", "town": "place", "second": "thing"}
"""Slots of the words of another, which differ from it: to exchange them exchanges the roles."""


@dataclass(frozen=True)
class Triple:
    """A sentence, the same in other words, and its smallest contradiction, with the rule of that."""

    text: str
    paraphrase: str
    contradiction: str
    rule: str


def draw(seed, count):
    """Return so many triples, no sentence of which is of another."""
    chance, found, seen = Random(seed), [], set()
    while len(found) < count:
        triple = _draw(chance, LANGUAGES[chance.choice([*LANGUAGES])])
        texts = {triple.text, triple.paraphrase, triple.contradiction}
        if not texts & seen:
            seen |= texts
            found.append(triple)
    return found


def _draw(chance, language):
    first, second = chance.choice(language.forms)
    words = {slot: chance.choice(listed) for slot, listed in language.words.items()}
    for slot, of in EXCHANGED.items():
        if of in words:
            words[slot] = chance.choice([each for each in language.words[of] if each != words[of]])
    words |= {"day": str(chance.randint(1, 28)), "number": str(chance.randint(2, 400))}
    text = first.format(**words)
    rules = [
        (f"other {slot}", first.format(**words | {slot: chance.choice(others)}))
        for slot, others in _list_others(language, words).items()
        if f"{{{slot}}}" in first
    ]
    for slot, of in EXCHANGED.items():
        if f"{{{slot}}}" in first and f"{{{of}}}" in first:
            rules.append(("roles", first.format(**words | {slot: words[of], of: words[slot]})))
    for name, listed in (("negation", language.negations), ("exchange", language.exchanges)):
        rules += [(name, text.replace(one, other, 1)) for one, other in listed if one in text]
    rule, contradiction = chance.choice(rules)
    return Triple(text, second.format(**words), contradiction, rule)


def _list_others(language, words):
    others = {slot: [each for each in listed if each != words[slot]] for slot, listed in language.words.items()}
    others |= {slot: [str(int(words[slot]) + step) for step in (1, 2, 10)] for slot in ("day", "number")}
    return others


if __name__ == "__main__":
    for triple in draw(1, int(sys.argv[1])):
        print(triple.text, triple.paraphrase, f"{triple.contradiction} ({triple.rule})", sep="\n", end="\n\n")
