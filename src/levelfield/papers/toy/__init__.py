"""The 2-D line experiments of roth2020 (section G, figures 6 and 12): the effect of a contrastive loss on a direction
that the training classes do not need."""

from levelfield.papers.toy.experiment import Outcome, Setting, settings, train
from levelfield.papers.toy.lines import FORMS, Form, draw
from levelfield.papers.toy.statistics import Figures, figures_of

__all__ = ["FORMS", "Figures", "Form", "Outcome", "Setting", "draw", "figures_of", "settings", "train"]
