"""Networks that timm does not have, or whose weights are here. One file each; new files are found automatically."""

from levelfield.embedder.networks._registry import Weights, register

__all__ = ["Weights", "register"]
