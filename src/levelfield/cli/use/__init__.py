"""Commands that use a trained model: embed, search, same, evaluate, ensemble."""
