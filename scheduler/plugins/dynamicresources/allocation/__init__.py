"""The search for devices on one node: pools, requests, constraints and shares."""
