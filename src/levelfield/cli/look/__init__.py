"""Commands that show results, ours and the papers'."""
