"""Where groups come from: one file for each kind of object that describes them.

Owns reading these objects, and how a pod names its group; `registry` asks the files in a fixed
order. Never decides where anything goes.
"""
