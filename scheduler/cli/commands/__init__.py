"""The signatures of the verbs: flags and help, and nothing that takes time to import."""
