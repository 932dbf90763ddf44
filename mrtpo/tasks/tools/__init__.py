"""Tool calling: format and correctness of calls, as ToolRL defines them."""
