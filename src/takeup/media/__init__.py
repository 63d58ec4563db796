"""Everything that knows media and ffmpeg, and nothing that knows jobs or databases."""
