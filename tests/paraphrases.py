"""Sentences of three languages, each with a paraphrase and a smallest contradiction, drawn by rules.

`python -m tests.paraphrases` shows three of each, and `--measure [--encoder package:function]` how many paraphrases the
layer semantic finds and how many contradictions go, by the rules whose labels choose the threshold and by others.
"""

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config

KINDS = "text", "paraphrase", "contradiction"
LABELED = 100
"""Triples, the first, of which the labels tell what is a duplicate."""

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
OTHERS = ["Olga", "Pavel", "Rosa", "Simon", "Tilda", "Ulrich", "Vera", "Walter", "Xenia", "Yannick"]
ELSEWHERE = ["Wien", "Sofia", "Kiel", "Nantes", "Leeds", "Cork", "Ulm", "Pisa", "Narvik", "Cadiz"]
HELD_OUT = {
    "en": Language(
        forms=[
            (
                "{who} sold {number} {goods} to {other} at the market in {place} before {month}.",
                "Before {month}, at the market in {place}, {other} bought {number} {goods} from {who}.",
            ),
            (
                "Every {role} at the {firm} received a letter from {who} on {day} {month}.",
                "A letter from {who} reached every {role} at the {firm} on {day} {month}.",
            ),
            (
                "The {thing} near {place} is older than the {second} and costs {number} euros a year.",
                "At {number} euros a year, the {thing} near {place}, which is older than the {second}, has its price.",
            ),
            (
                "{who} never visited {place} because {other} was ill in {month}.",
                "Since {other} was ill in {month}, {who} never visited {place}.",
            ),
            (
                "The train from {place} to {town} arrives {number} minutes late on {weekday}.",
                "On {weekday} the train is {number} minutes late when it arrives from {place} in {town}.",
            ),
            (
                "{who} says that the {firm} will close its office in {place} after {day} {month}.",
                "After {day} {month} the {firm} will shut the office that it has in {place}, according to {who}.",
            ),
        ],
        words={
            "who": OTHERS,
            "place": ELSEWHERE,
            "month": ["February", "May", "July", "September", "November"],
            "weekday": ["Monday", "Tuesday", "Friday", "Sunday"],
            "goods": ["apples", "chairs", "lamps", "carpets", "bicycles"],
            "role": ["nurse", "clerk", "driver", "pupil"],
            "firm": ["hospital", "bakery", "factory", "bank"],
            "thing": ["castle", "tower", "chapel", "mill", "inn"],
        },
        negations=[
            ("sold", "refused to sell"),
            ("received", "did not receive"),
            ("never visited", "often visited"),
            ("arrives", "does not arrive"),
            ("will close", "will not close"),
            ("Every", "Hardly any"),
            ("older", "younger"),
            ("before", "after"),
            ("after", "before"),
            ("minutes", "hours"),
            ("euros", "dollars"),
            ("a year", "a month"),
        ],
        exchanges=[("ill", "well"), ("sold", "lent"), ("close", "open"), ("received", "wrote"), ("late", "early")],
    ),
    "de": Language(
        forms=[
            (
                "{who} verkaufte im {month} {number} Stühle an {other} in {place}.",
                "In {place} kaufte {other} im {month} von {who} {number} Stühle.",
            ),
            (
                "Jeder Schüler der Klasse bekam am {day}. {month} einen Brief von {who}.",
                "Einen Brief von {who} hat am {day}. {month} jeder Schüler der Klasse bekommen.",
            ),
            (
                "Der Zug von {place} nach {town} kommt am {weekday} {number} Minuten später an.",
                "Am {weekday} ist es so, dass der Zug von {place} nach {town} {number} Minuten später ankommt.",
            ),
            (
                "{who} hat {place} nie besucht, weil {other} im {month} krank war.",
                "Weil {other} im {month} krank war, hat {who} nie {place} besucht.",
            ),
            (
                "Die Brücke bei {place} ist älter als die Mühle und kostet {number} Euro im Jahr.",
                "Mit {number} Euro im Jahr schlägt die Brücke bei {place} zu Buche, die älter als die Mühle ist.",
            ),
        ],
        words={
            "who": OTHERS,
            "place": ELSEWHERE,
            "month": ["Februar", "Mai", "Juli", "September", "November"],
            "weekday": ["Montag", "Dienstag", "Freitag", "Sonntag"],
        },
        negations=[
            ("bekam", "bekam nie"),
            ("nie besucht", "oft besucht"),
            ("kommt am", "kommt nicht am"),
            ("Jeder", "Kein"),
            ("älter", "jünger"),
            ("später", "früher"),
            ("Minuten", "Stunden"),
            ("im Jahr", "im Monat"),
        ],
        exchanges=[("krank", "gesund"), ("verkaufte", "schenkte"), ("Stühle", "Tische"), ("Brief", "Preis")],
    ),
    "fr": Language(
        forms=[
            (
                "{who} a vendu {number} chaises à {other} au marché de {place} en {month}.",
                "Au marché de {place}, {other} a acheté en {month} {number} chaises à {who}.",
            ),
            (
                "Chaque employé de la banque a reçu une lettre de {who} le {day} {month}.",
                "Le {day} {month}, une lettre de {who} est parvenue à chaque employé de la banque.",
            ),
            (
                "Le train de {place} à {town} arrive avec {number} minutes de retard le {weekday}.",
                "Le {weekday}, c'est avec {number} minutes de retard qu'arrive le train de {place} à {town}.",
            ),
            (
                "{who} n'a jamais visité {place} parce que {other} était malade en {month}.",
                "Comme {other} était malade en {month}, {who} n'a jamais visité {place}.",
            ),
            (
                "Le château de {place} est moins cher que le moulin et coûte {number} euros par an.",
                "Coûtant {number} euros par an, le château de {place} reste moins cher que le moulin.",
            ),
        ],
        words={
            "who": OTHERS,
            "place": ELSEWHERE,
            "month": ["février", "mai", "juillet", "septembre", "novembre"],
            "weekday": ["lundi", "mardi", "vendredi", "dimanche"],
        },
        negations=[
            ("a vendu", "n'a pas vendu"),
            ("n'a jamais visité", "a souvent visité"),
            ("arrive avec", "n'arrive jamais avec"),
            ("Chaque", "Aucun"),
            ("moins cher", "plus cher"),
            ("minutes", "heures"),
            ("par an", "par mois"),
        ],
        exchanges=[("malade", "guéri"), ("vendu", "prêté"), ("reçu", "écrit"), ("retard", "avance")],
    ),
}
"""Languages of other forms, words and contradictions, none of which a label or a list was made by."""
EXCHANGED = {"other": "who", "town": "place", "second": "thing"}
"""Slots of the words of another, which differ from it: to exchange them exchanges the roles."""


@dataclass(frozen=True)
class Triple:
    """A sentence, the same in other words, and its smallest contradiction, with the rule of that."""

    text: str
    paraphrase: str
    contradiction: str
    rule: str


def draw(seed, count, languages=LANGUAGES):
    """Return so many triples, no sentence of which is of another."""
    chance, found, seen = Random(seed), [], set()
    while len(found) < count:
        triple = _draw(chance, languages[chance.choice([*languages])])
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


def search(folder, triples, order="tpc", labeled=LABELED, begin=0, **settings):
    """Search sentences, the labels of the first triples given, and return who goes in favour of whom, and the details.

    A pair is told by the first letters of what both are, and whether they are of one triple; only those from `begin` on
    are told. Ids are in the order of a sentence, its paraphrase and its contradiction, or in another.
    """
    texts = [(f"{n:04}{order.index(k[0])}", getattr(each, k)) for n, each in enumerate(triples) for k in KINDS]
    pq.write_table(pa.table(dict(zip(("id", "text"), zip(*texts, strict=True), strict=True))), folder / "in.parquet")
    labels = [
        {"left_id": f"{n:04}{order.index('t')}", "right_id": f"{n:04}{order.index(kind)}", "duplicate": kind == "p"}
        for n in range(labeled)
        for kind in "pc"
    ]
    (folder / "labels.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in labels))
    given = {"evaluation.labeled_pairs": str(folder / "labels.jsonl")} if labeled else {}
    config = load_config(settings={"input.id_column": "id", "layers": ["semantic"]} | given | settings)
    report = run_in_memory(Job(inputs=[str(folder / "in.parquet")], output=str(folder / "out"), config=config))
    gone = pq.read_table(folder / "out" / "duplicates").select(["id", "representative_id"]).to_pylist()
    pairs = [tuple(each.values()) for each in gone]
    told = Counter(
        (*(order[int(each[-1])] for each in (a, b)), "own" if a[:-1] == b[:-1] else "other")
        for a, b in pairs
        if int(a[:-1]) >= begin
    )
    return told, report["layers"][0]["details"]


def main():
    """Show triples, or measure."""
    cli = argparse.ArgumentParser(prog="paraphrases", description=__doc__)
    cli.add_argument("--measure", action="store_true")
    cli.add_argument("--encoder", default="corpus")
    options = cli.parse_args()
    if not options.measure:
        for triple in [*draw(1, 3), *draw(1, 3, HELD_OUT)]:
            print(triple.text, triple.paraphrase, f"{triple.contradiction} ({triple.rule})", sep="\n", end="\n\n")
        return
    for name, triples, begin in (("calibrated", draw(7, 1_000), 0), ("held out", hold_out(1_000), LABELED)):
        with tempfile.TemporaryDirectory() as folder:
            told, details = search(Path(folder), triples, begin=begin, **{"semantic.encoder": options.encoder})
        found = told["p", "t", "own"] + told["t", "p", "own"]
        print(f"{name}: {found} of 1,000 paraphrases found, {sum(told.values()) - found} others removed", end="; ")
        print(f"threshold {details['threshold']} by {details['threshold_chosen_by']}")


def hold_out(count):
    """Return labelled triples by the first rules, and so many by others."""
    return [*draw(7, LABELED), *draw(11, count, HELD_OUT)]


if __name__ == "__main__":
    main()
