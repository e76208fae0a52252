"""The inputs of verbs: files, a live cluster, the running daemon and decision logs."""
