"""Configuration files: strict decoding, defaults, merging and validation.

Turns KubeSchedulerConfiguration and TrellisConfiguration text into structs; opens no file.
"""
