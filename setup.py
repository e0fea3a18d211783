"""What pyproject.toml cannot say: packages found by name, and one whose folder lies outside of them."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["dedup*"]), "dedup.conf"], package_dir={"dedup.conf": "conf"})
