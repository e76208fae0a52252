"""What agents and operators report about nodes and pods."""
