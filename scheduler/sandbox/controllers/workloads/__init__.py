"""The controllers that create pods: Deployments, StatefulSets, DaemonSets, Jobs."""
