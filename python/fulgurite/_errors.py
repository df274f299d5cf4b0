"""The exceptions of this package."""


class FulguriteError(Exception):
    """An operation failed. The other exceptions are derived from this one."""


class NotFound(FulguriteError, FileNotFoundError):
    """There is no such object, version or bucket, or it was deleted."""


class IsFolder(NotFound):
    """The name is that of a folder, which has no content."""


class Unavailable(FulguriteError, OSError):
    """The object can't be read now, for example because stores are absent. It isn't known to be lost."""


class NotListed(Unavailable):
    """It isn't listed, but the catalogue has gaps."""


class Unreadable(FulguriteError, OSError):
    """The object is damaged beyond what the archive's codes can repair, or its key is missing."""


class Refused(FulguriteError, PermissionError):
    """The server denies access: no permission, or wrong credentials."""


class IncompleteWarning(UserWarning):
    """The catalogue has gaps, so that a list or a newest version may not be the true one."""
