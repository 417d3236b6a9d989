"""Files: written whole or not at all, read as data and never as code, with limits on size and type."""
