"""Records of decisions: log lines, the last ones, the decision log, and traces."""
