"""Convert manifests and configurations of older versions to the current ones."""
