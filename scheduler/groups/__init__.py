"""Group scheduling: pods that are placed together in a tree of racks and nodes, all or none.

`sources` and `description` read groups from objects, `topology` reads the tree, `planning` builds a
problem for `solver` and converts its answer to a plan. `cycle` takes members from the queue to the
last bind, and `status` writes to the objects. `plugin` joins them; `scheduler.intree` lists it.
"""
