"""Recorded runs as they lie on disk: plain, gzip or zstd, which the file itself says; and one that is being written."""

import os
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, cast

from schedspec.spec.trace import TraceError, read_trace
from schedspec.spec.vocabulary import Header, Message

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
CHUNK_BYTES = 1 << 16
PIECE_BYTES = 1 << 10
"""A packed byte may stand for a thousand, with zstd for thirty thousand: what is unpacked at once stays small."""
LOOK_EVERY = 5_000
SUFFIXES = (".gz", ".zst")


class ArchiveError(TraceError):
    """Its line is not known where it is raised."""


def plain_name(path: Path) -> str:
    """Without what says how it is packed."""
    return path.name.removesuffix(path.suffix) if path.suffix in SUFFIXES else path.name


def read_recorded(
    path: Path, read: Callable[..., tuple[Header, Iterator[Message]]] = read_trace
) -> tuple[Header, Iterator[Message]]:
    """Like `read_trace`, of whatever packing.  A file that is longer or shorter at the end than it was at the beginning
    ends in a TraceError: its last messages may be halves."""
    items = _items(path, read)
    # A generator that has yielded once closes its file even if nobody reads on.
    header = cast(Header, next(items))
    return header, cast(Iterator[Message], items)


def _items(path: Path, read: Callable[..., tuple[Header, Iterator[Message]]]) -> Iterator[Header | Message]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, messages = read(unpacked(path, file))
        yield header
        number = 1
        try:
            for number, message in enumerate(messages, start=2):
                if number % LOOK_EVERY == 0:
                    _ensure_same_size(path, file, size, number)
                yield message
        except ArchiveError as fault:
            _ensure_same_size(path, file, size, number)
            raise TraceError(fault.source, number, fault.problem) from None
        except TraceError:
            _ensure_same_size(path, file, size, number)
            raise
        _ensure_same_size(path, file, size, number)


def _ensure_same_size(path: Path, file: IO[bytes], size: int, number: int) -> None:
    now = os.fstat(file.fileno()).st_size
    if now != size:
        what = f"the file had {size:,} bytes when it was opened and has {now:,} now"
        raise TraceError(str(path), number, f"{what}: judge it when nobody writes to it any more, or judge a copy")


def unpacked(path: Path, file: BufferedReader) -> IO[bytes]:
    """The content of an open file; `name` is that of the file.  It may be a pipe, which cannot be wound back."""
    begin = file.peek(len(ZSTD))[: len(ZSTD)]
    if begin.startswith(GZIP):
        return Buffered(Unpacked(path, file, lambda: zlib.decompressobj(wbits=31)))
    if begin == ZSTD:
        return Buffered(Unpacked(path, file, _zstd(path)))
    return file


def _zstd(path: Path) -> Callable[[], Any]:
    try:
        from zstandard import ZstdDecompressor
    except ImportError:
        hint = "pip install 'schedspec[zstd]', or unpack it"
        raise TraceError(str(path), 1, f"the file is packed with zstd, which needs zstandard: {hint}") from None
    return lambda: ZstdDecompressor().decompressobj()


class Buffered(BufferedReader):
    """Has the name of the file, for whoever says what is wrong with it."""

    def __init__(self, raw: "Unpacked") -> None:
        super().__init__(raw, CHUNK_BYTES)
        self.path = str(raw.path)

    @property
    def name(self) -> str:
        return self.path


class Unpacked(RawIOBase):
    """Bytes of an archive of one or more parts, as they are asked for.  Raises ArchiveError where it is cut off: what
    came before has been given."""

    def __init__(self, path: Path, file: IO[bytes], new_part: Callable[[], Any]) -> None:
        self.path, self.file, self.new_part = path, file, new_part
        self.part = new_part()
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready and self._unpack_more():
            pass
        size = min(len(buffer), len(self.ready))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size

    def _unpack_more(self) -> bool:
        """False at the end."""
        packed = self.part.unused_data if self.part.eof else b""
        if self.part.eof and not packed:
            packed = self.file.read(PIECE_BYTES)
            if not packed:
                return False
        if self.part.eof:
            self.part = self.new_part()
        else:
            packed = self.file.read(PIECE_BYTES)
            if not packed:
                raise ArchiveError(str(self.path), 1, "the archive is cut off: copy it once more, or delete its end")
        try:
            self.ready = memoryview(self.part.decompress(packed))
        except Exception as error:  # zlib and zstandard have errors of their own
            raise ArchiveError(str(self.path), 1, f"the archive is damaged: {error}") from None
        return True
