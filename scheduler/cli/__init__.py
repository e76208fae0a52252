"""The command line: one module per verb, heavy imports only inside the verbs."""
