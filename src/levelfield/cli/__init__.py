"""The command line: parse, call, print."""

from levelfield.cli.app import main

__all__ = ["main"]
