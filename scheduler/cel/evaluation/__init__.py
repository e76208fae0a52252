"""Values, functions and the evaluation of a checked selector, with its cost."""
