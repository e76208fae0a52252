"""What a verb reads: files, a live cluster, the running daemon and decision logs."""
