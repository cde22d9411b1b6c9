"""Refuses to build a wheel: the program runs from a clone, where its configs and samples are."""

import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class NoWheel(bdist_wheel):
    """Says what to do instead of building a wheel."""

    def run(self) -> None:
        """Explain, and leave."""
        sys.exit("memsys is no wheel: clone the repository and run 'pip install -e .' in it.")


setup(cmdclass={"bdist_wheel": NoWheel})
