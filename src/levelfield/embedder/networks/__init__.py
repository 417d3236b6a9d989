"""Networks that timm does not have, or whose weights are here. One file each; a new file here is found by itself."""
