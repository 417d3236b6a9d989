"""The leaderboard for people and programs: terminal, Markdown, CSV, JSON."""
