"""Images to embedding rows: a trunk (timm network, cut and taps), a head, and a store for what does not change."""
