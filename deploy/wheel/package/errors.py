"""The one exception of this package."""

from __future__ import annotations


class MusterError(Exception):
    """What went wrong, in the words of the controller or the agent where they said it.

    `code` is the name of a gRPC status, such as NOT_FOUND or INVALID_ARGUMENT (docs/CLI.md says what each means).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
