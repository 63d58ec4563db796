"""What can be wrong with a source or with the tools; each says whether another try could help."""

from takeup.core.errors import TakeupError


class MediaError(TakeupError):
    """The source cannot be used; trying again would not help."""

    http_status = 422
    help = "Check the file with `takeup check`, or send another one."


class NotMedia(MediaError):
    """No picture and no sound was found in the file."""

    help = "Send a video or audio file; the name of a file does not matter, its content does."


class TooLarge(MediaError):
    """The source claims more than the limits allow."""

    help = "Send a smaller file, or raise the limit that the message names."


class NoTools(TakeupError):
    """ffmpeg or ffprobe is missing."""

    help = (
        "Install ffmpeg (`apt install ffmpeg`), or `pip install takeup[ffmpeg]`, or name the programs in "
        "TAKEUP_FFMPEG_PATH and TAKEUP_FFPROBE_PATH; `takeup doctor` says what was found."
    )


class ToolFailed(TakeupError):
    """A tool ended in a way that another try may mend: it was killed, hung, or ran out of something."""

    retryable = True
    help = "It is tried again; if it keeps failing, the last words in the message say why."
