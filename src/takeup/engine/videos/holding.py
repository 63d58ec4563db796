"""Who may do what to the file of an upload: the order in which files and rows are held.

The file of an upload is one file under two names: `upl_….part` while it grows, `vid_….source` from the
rename on. Its lock is that of the file (flock), so it goes along with the rename, and it ends with the
process that holds it, however that dies.

1. The file before the row. Who writes, renames, adopts, ends or sweeps holds the file first, and only then
   looks at the row of the upload: what was read before is old. Nobody waits for a file: who does not get it
   leaves everything as it is (`UploadBusy`). So nobody waits in a circle.
2. Who writes makes the `.part` that he holds. Who then sees the `.source` beside it came between look and
   rename; what he made is empty, and he removes it. Who ends an upload makes none, so that a full disk does
   not keep him from it: where he finds no file he drops the row alone, and rule 3 tells a writer who came.
3. The row decides, not the file. The video is written, and its upload ended, in one transaction that
   requires the upload to be open (and its pull, if there is one, not to be given up). An upload is dropped
   only while it is open. Whichever commits first, the other finds nothing to change.
4. A file is removed only by who holds it, after the row is dropped, and never if its video is there: a
   holder may be gone while his last transaction still commits.
5. In the database: first the row of the pull, then that of the upload, then the video and its job.

Who dies between the rename and the video leaves an open upload with its whole file, which is adopted. Who
dies between the row and the removal leaves a file that nobody knows, which is swept when it is old.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from takeup.core.videos import video_id_of
from takeup.engine.videos.errors import UploadBusy
from takeup.engine.videos.places import Places
from takeup.engine.videos.receiving import Part, opened

LATE = "this file was finished or removed just now"


@contextmanager
def growing(places: Places, upload_id: str) -> Iterator[Part]:
    """The file of an upload that has not its last name yet, for us alone; made if it is not there."""
    with opened(places.part(upload_id), may_make=True) as part:
        if places.source(video_id_of(upload_id)).exists():
            part.remove()  # we made it, after the rename
            raise UploadBusy(LATE)
        yield part


@contextmanager
def held(places: Places, upload_id: str) -> Iterator[Part]:
    """The file of an upload under the name that it has, for us alone."""
    source = places.source(video_id_of(upload_id))
    with opened(source if source.exists() else places.part(upload_id)) as part:
        yield part
