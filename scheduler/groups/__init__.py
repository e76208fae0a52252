"""Group scheduling: pods that are placed together in a tree of racks and nodes, all or none.

`sources` and `description` read what objects say of a group, `topology` the tree, `planning` builds
a problem for `solver` and turns its answer into a plan, `cycle` takes members from the queue to the
last bind, and `status` writes to the objects. `plugin` joins them; `scheduler.intree` lists it.
"""
