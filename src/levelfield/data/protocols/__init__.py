"""Protocols: division of classes into training, validation and test. A group of classes is never divided.

A new file here is found automatically.
"""

from levelfield.data.protocols._registry import Fold, create, describe, fold_count, names, register, registry

__all__ = ["Fold", "create", "describe", "fold_count", "names", "register", "registry"]
