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

    help = "Send a smaller file, or raise the setting that the message names, where it names one."


class UnknownCodec(MediaError):
    """The source is encoded in a way that is not decoded here."""

    help = "Convert the file with a tool that you trust to a codec such as H.264 or ProRes, and send that."


class LimitReached(MediaError):
    """A tool used more than it may for such a source, and would again."""

    help = "Send a smaller file; a source that makes a tool reach a limit may be broken or hostile."


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


class ToolCrashed(ToolFailed):
    """A tool did what no program should; one that does it twice on the same work does it every time."""

    fails_twice = True
    help = (
        "It is tried once more. A source that crashes ffmpeg may be hostile: keep it away from other tools."
    )


class ToolStarved(ToolFailed):
    """A tool got no memory or did not get on; on another machine or at another time it may."""

    fails_twice = True
    help = "It is tried once more. Give the machine more memory (TAKEUP_FFMPEG_MEMORY_GB), or fewer slots."
