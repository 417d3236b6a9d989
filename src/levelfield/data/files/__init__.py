"""Image files, folders and archives."""
