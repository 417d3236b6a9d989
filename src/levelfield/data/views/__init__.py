"""Views turn an image and a random stream into a normalised tensor. Needs torchvision, which catalogs do not."""

from levelfield.data.views.basic import LightView, StandardView, TestView, View, train_view
from levelfield.data.views.named import StepsView, steps_view

__all__ = ["LightView", "StandardView", "StepsView", "TestView", "View", "steps_view", "train_view"]
