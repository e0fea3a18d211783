"""What pyproject.toml cannot say: packages by name, one whose folder lies outside, and a README that stands alone."""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def describe() -> str:
    """Return the README with links to files as absolute ones, or as their words where the project has no address."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "").rstrip("/")
    link = rf"[\1]({address}/blob/main/\2)" if address else r"\1"
    text = re.sub(r"<img [^>]*>\n*", "", (ROOT / "README.md").read_text("utf-8"))
    return re.sub(r"\[([^\]]*)\]\((?!https?:)([^)]*)\)", link, text)


setup(
    packages=[*find_packages(include=["dedup*"]), "dedup.conf"],
    package_dir={"dedup.conf": "conf"},
    long_description=describe(),
    long_description_content_type="text/markdown",
)
