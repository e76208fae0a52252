"""The output of verbs: tables, documents, HTML files, progress lines and repeated answers."""
