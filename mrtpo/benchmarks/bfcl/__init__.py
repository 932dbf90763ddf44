"""Berkeley Function Calling Leaderboard v4, single-turn categories (docs/bfcl.md).

    questions   the folder's files           decode, pythonic, codelike   a response's text -> calls
    check       calls against the answers    types, values                types of three languages
    prompts     what a checkpoint is asked   score                        verdict rows and scores

A call is `{name: {argument: value}}`.
"""
