"""The exceptions of this package."""


class FulguriteError(Exception):
    """An operation failed. The other exceptions are derived from this one."""


class NotFound(FulguriteError, FileNotFoundError):
    """No such object, or it was deleted."""


class Unavailable(FulguriteError, OSError):
    """It can't be read now, for example because stores are absent. It isn't known to be lost."""


class Unreadable(FulguriteError, OSError):
    """It is lost or damaged beyond what the archive's codes can repair, or its key is missing."""


class Refused(FulguriteError, PermissionError):
    """The server denies access."""


class IncompleteWarning(UserWarning):
    """The catalogue has gaps, so that a list or a newest version may not be the true one."""
