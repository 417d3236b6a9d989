"""Images to features: a timm network divided at the cut, read at its taps, and a cache for the frozen part."""
