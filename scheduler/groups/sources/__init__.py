"""The sources of groups: one file for each kind of object that describes them.

Owns reading these objects, and how a pod names its group; `registry` calls the sources in a fixed
order. Makes no placement decision.
"""
