"""Lists and watches of the API server's objects, decoded into structs."""
