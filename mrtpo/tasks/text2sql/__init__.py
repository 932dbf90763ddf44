"""Text-to-SQL: format, executability and execution of a query against a SQLite database."""

from mrtpo.tasks.text2sql.task import TextToSQL

__all__ = ["TextToSQL"]
