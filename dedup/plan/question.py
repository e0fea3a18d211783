"""Question of a user to a plan."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

from dedup.errors import ConfigError
from dedup.plan.wishes import Target
from dedup.settings.banding import Banding
from dedup.settings.options import Config, Lsh

RULES: Mapping[str, tuple[str, Callable[[float], bool]]] = MappingProxyType(
    {
        "threshold": ("above 0 and at most 1", lambda value: 0 < value <= 1),
        "efficiency": ("at least 1e-06 and at most 1", lambda value: 1e-6 <= value <= 1),
        "duplication": ("at least 0 and below 1", lambda value: 0 <= value < 1),
        "sample_documents": ("at least 2", lambda value: value >= 2),
    }
)
"""Rules of numbers in a question, in words and as a test; others follow POSITIVE."""
POSITIVE = ("at least 1e-09 and at most 1e+18", lambda value: 1e-9 <= value <= 1e18)
READ_WITH = (
    ("sample", "which is a part of so many documents", ("sample_of",)),
    ("sample", "from which so many are drawn at most", ("sample_documents",)),
    ("documents", "as a capacity is planned for so many alone", ("efficiency", "price_per_core_hour")),
)
"""Fields that are read only where another is given, and the reason."""
UNMEASURED = ("mean_tokens", "mean_bytes", "duplication")
"""Fields that stand for what a sample tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """Question of a user."""

    config: Config
    recall: Sequence[str] = ()
    candidates: Sequence[str] = ()
    threshold: float | None = None
    max_signature_bytes: int | None = None
    max_candidates_per_doc: float | None = None
    check: str | None = None
    sample: str | None = None
    sample_documents: int | None = None
    sample_of: int | None = None
    documents: int | None = None
    mean_tokens: float | None = None
    mean_bytes: float | None = None
    id_bytes: float = 8.0
    duplication: float | None = None
    executors: int = 10
    cores: int = 4
    efficiency: float | None = None
    price_per_core_hour: float | None = None
    calibrate: bool = False


def check_numbers(question: PlanQuestion) -> None:
    """Refuse numbers outside their rules, and those that nothing would read."""
    for entry in fields(question):
        value = getattr(question, entry.name)
        rule, holds = RULES.get(entry.name, POSITIVE)
        if isinstance(value, int | float) and not isinstance(value, bool) and not holds(value):
            raise ConfigError(f"{_name(entry.name)} must be {rule} (got {value:g})")
    for needed, purpose, names in READ_WITH:
        for name in names:
            value, given = getattr(question, name), getattr(question, needed) is not None
            if value is not None and not given:
                raise ConfigError(f"{_name(name)} needs {_name(needed)}, {purpose} (got {value:g})")
    for name in UNMEASURED:
        value = getattr(question, name)
        if question.sample is not None and value is not None:
            raise ConfigError(f"{_name(name)} must be left out with --sample, which is measured (got {value:g})")


def _name(field: str) -> str:
    """Return the option of a field."""
    return f"--{field.replace('_', '-')}"


def parse_target(option: str, text: str) -> Target:
    """Read SHARE@SIMILARITY."""
    share, at, similarity = text.partition("@")
    try:
        found = Target(option=option, share=float(share), similarity=float(similarity))
    except ValueError:
        at = ""
    if not at or not (0 < found.share < 1 and 0 < found.similarity <= 1):
        raise ConfigError(
            f"{option} must be SHARE@SIMILARITY, such as 0.99@0.8, with a share above 0 and below 1 and a similarity "
            f"above 0 and at most 1 (got {text!r})"
        )
    return found


def parse_choice(text: str) -> Banding:
    """Read BANDSxROWS."""
    numbers = re.fullmatch(r"(\d+)\s*x\s*(\d+)", text)
    if numbers is None:
        raise ConfigError(f"--check must be BANDSxROWS, such as 21x6 (got {text!r})")
    try:
        Lsh(bands=int(numbers[1]), rows=int(numbers[2]))
    except ConfigError as error:
        raise ConfigError(str(error).replace("Lsh", f"--check {text}", 1)) from error
    return Banding(int(numbers[1]), int(numbers[2]))
