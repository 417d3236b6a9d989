"""`levelfield view`: a study's page from a server on this machine, with its images and live search."""
