"""Connections to an API server: kubeconfig, credentials, TLS, HTTP, rate limits."""
