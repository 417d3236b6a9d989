"""What each section of the page shows: the leaderboard, search, mistakes, thresholds, regions, curves and tables."""
