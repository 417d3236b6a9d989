"""One run: inputs, set-up, training, evaluation, and the folder that holds it."""
