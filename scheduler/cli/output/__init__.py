"""How a verb prints: tables, documents, HTML files, progress lines and repeated answers."""
