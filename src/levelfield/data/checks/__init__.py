"""Checks of images and datasets: readable, complete, free of leaks."""
