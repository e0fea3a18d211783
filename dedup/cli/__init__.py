"""The command `dedup VERB`, which jobs/ and scripts/ call."""

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib import import_module

from dedup.cli.common import Parser
from dedup.cli.process import command
from dedup.version import __version__

VERBS = {
    "run": "remove near-duplicate documents from a corpus",
    "plan": "choose bands and rows, and see what a run will take",
    "explain": "say why a document was removed or kept",
    "evaluate": "measure how well settings find the duplicates of a corpus",
    "store": "look after a store of earlier batches",
    "compare": "say how much of each snapshot of a corpus is in each other",
    "overlap": "estimate from sketches, without texts, how much of each corpus is in each other",
    "erase": "take documents out of a store and out of the outputs of its batches",
    "lookup": "say of documents whether a store has them already",
}


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit status.

    Parameters
    ----------
    arguments
        The verb and what follows it; by default those of the command line.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if arguments is None:
        # As it ends, Python looks through half a million objects for cycles, which takes it a third of a second. Other
        # programs may hold what is to be told of its end.
        atexit.register(gc.freeze)
    cli = Parser(
        prog="dedup",
        examples=["dedup run --input corpus.jsonl --output clean", "dedup explain clean --top 5"],
        description="Remove near-duplicate documents from text corpora, each removal verified exactly.",
        epilog="dedup VERB --help says what each takes.",
    )
    cli.add_argument("--version", action="version", version=f"dedup {__version__}")
    verbs = cli.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb, purpose in VERBS.items():
        verbs.add_parser(verb, help=purpose)
    if given and given[0].startswith("--") and given[0] not in {"--help", "--version"}:
        cli.error(f"VERB must come first, as in dedup run {given[0]} ... (got {given[0]})")
    # Only the verb is read here, and only its module is imported.
    verb = cli.parse_args(given[:1] or ["--help"]).verb
    return int(import_module(f"dedup.cli.{verb}").main(given[1:]))
