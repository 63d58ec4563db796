"""Why a file is not taken."""

from takeup.core.errors import Conflict, InvalidInput, TakeupError


class TooLarge(TakeupError):
    """The file is larger than what is taken, or than was said."""

    http_status = 413
    help = "Send a smaller file, or raise `upload_max_gb`."


class NoRoom(TakeupError):
    """There is not enough room for a file, and for what others are sending."""

    retryable = True
    http_status = 507
    help = "Try again when there is room; an operator can make some on the server's disk."


class Checksum(InvalidInput):
    """What came is not what was sent."""

    help = "Send the file again; nothing of it was kept."


class ChunkChecksum(TakeupError):
    """What came of a part is not what was sent; the status is that of the protocol for resumed uploads."""

    http_status = 460
    help = "Send this part again from the same offset."

    @property
    def code(self) -> str:
        return "checksum"


class WrongOffset(Conflict):
    """A part does not begin where the file ends."""

    help = "Ask for the offset (HEAD) and go on from there."


class UploadBusy(Conflict):
    """Somebody is sending this very file."""

    help = "Wait until the other request is over, then ask for the offset (HEAD)."


class SourceGone(TakeupError):
    """The file of a video is not there any more."""

    http_status = 404
    help = "Send the file again as a new video."


class SourceChanged(Conflict):
    """A file is still being written."""

    help = "Wait until it is whole."


class CannotProbe(TakeupError):
    """The file could not be looked into, for reasons that are ours."""

    http_status = 503
    help = "Send it again later; `takeup doctor` says what is wrong with the tools."
