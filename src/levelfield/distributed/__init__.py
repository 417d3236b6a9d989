"""How work leaves this process: worker processes, the ranks of a run and what they gather, torchrun, Ray."""
