"""Features to the raw embedding row: the common linear head, its closed-form starts, and DRML's relation head."""
