"""An index: the rows of a folder of photos on disk, searched exactly or approximately. Without torch where possible."""
