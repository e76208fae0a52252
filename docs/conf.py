"""The Sphinx configuration of `make docs`: the site from the pages of this folder, without
downloads.
"""

project = "Trellis"
extensions = ["myst_parser"]
exclude_patterns = ["examples", "generate", "changes", "static"]
# `make docs` turns warnings into errors: a link that leads nowhere, a page that no contents list.
nitpicky = True

# Headings are link targets, named as GitHub names them, so that links work in both places.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

html_theme = "furo"
html_title = "Trellis"
html_static_path = ["images", "static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
