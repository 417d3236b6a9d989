"""Networks that timm does not have, or whose weights are here. One file each; new files are found automatically."""
