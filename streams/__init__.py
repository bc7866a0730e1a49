"""Query language, operators and the engine that runs one statement.

From the text of a query to its output:

    from streams.language import parse, QueryError
    from streams.plan.compiler import compile_statement
    from streams.evaluate.engine import FragmentEngine

    for statement in parse(text):                     # .name, .text (that statement alone)
        program = compile_statement(statement, catalogue)   # stream → column → type
        catalogue[program.name] = program.columns           # .inputs, .operators
    engine = FragmentEngine(program)                  # .schema of the output rows
    engine.offer(stream, chunk)                       # in order, without gaps, else ChunkError
    while engine.ready:
        evaluated = engine.advance(64)     # .rows .watermarks_ms .ingestion_times_us .tuples_in
    engine.positions(); data = engine.snapshot(); engine.restore(data)   # else SnapshotError

`QueryError` (`.line`, `.column`, `.message`; `str()` shows the line with a caret) comes from
`parse` and `compile_statement`; `SnapshotError` is in `streams.vectors.state`.
docs/query-language.md is the language's reference.
"""
