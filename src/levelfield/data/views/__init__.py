"""Views turn an image and a random stream into a normalised tensor. Needs torchvision, which catalogs do not."""

from levelfield.data.views.basic import LightView, TestView, View
from levelfield.data.views.named import StepsView, steps_view, train_view

__all__ = ["LightView", "StepsView", "TestView", "View", "steps_view", "train_view"]
