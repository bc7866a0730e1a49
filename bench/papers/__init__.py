"""Every table and figure of the five papers, ours beside theirs: `python -m bench papers`.

`catalogue` says what the papers have and which figures of which benchmarks stand beside it.
`reports` runs the benchmarks, `document` puts both together, and `page` renders the document.
"""
