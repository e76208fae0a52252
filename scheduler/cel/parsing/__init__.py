"""From the text of a selector to its syntax tree."""
