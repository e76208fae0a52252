"""One attempt for one pod: from a popped pod to a decision, and its processing."""
