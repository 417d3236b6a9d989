"""Executors of a plan's runs: this process, worker processes, Ray."""
