#!/usr/bin/env python3
"""Reads a segment, an archived or recorded part of a realm's log, as docs/formats.md
specifies it: checks every checksum, and prints a line for each commit.

    python3 examples/segment/read.py FILE

It needs a module for zstd: that of Python 3.14, or `zstandard`
(Debian: python3-zstandard; PyPI: zstandard)."""

import hashlib
import struct
import sys
import zlib

try:
    from compression.zstd import decompress  # Python 3.14
except ImportError:
    try:
        from zstandard import decompress
    except ImportError:
        sys.exit("no module for zstd: install python3-zstandard")

LOG_FORMAT = 4  # the newest version of the log format that this reader knows

HEADER = struct.Struct("<8sI16sQQQI")
BLOCK = struct.Struct("<4sIIIIIQQI")
ENTRY = struct.Struct("<QQQQq")
FOOTER = struct.Struct("<4sIQQQQQQq32sII")


class Damaged(Exception):
    pass


def unpack(layout, data, offset):
    """Returns the fields of a part that ends with a CRC-32, without that."""
    part = data[offset:offset + layout.size]
    if len(part) < layout.size:
        raise Damaged(f"byte {len(data)}: the file ends here")
    fields = layout.unpack(part)
    if zlib.crc32(part[:-4]) != fields[-1]:
        raise Damaged(f"byte {offset}: wrong checksum")
    return fields[:-1]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def commit_header(message):
    """Returns the fields of the header of a coppice.v1.Commit, by their numbers. The
    header is never compressed, and first_revision (6) is its last field."""
    fields, at = {}, 0
    while 6 not in fields:
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            fields[number], at = varint(message, at)
        elif kind == 1:
            fields[number], at = message[at:at + 8], at + 8
        else:
            size, at = varint(message, at)
            fields[number], at = message[at:at + size], at + size
    return fields


def commits(data):
    """Yields the position and the message of each commit of a segment."""
    if data[:8] != b"\x89CSEG\r\n\x1a":
        raise Damaged("byte 0: not a segment")
    version, = struct.unpack_from("<I", data, 8)
    if version != 1:
        raise Damaged(f"byte 8: format version {version}: use a newer reader")
    _, _, _, sequence, revision, _ = unpack(HEADER, data, 0)
    offset, index, total, digest = HEADER.size, [], 0, hashlib.sha256()
    while data[offset:offset + 4] == b"CBLK":
        _, codec, raw, stored, count, crc, first, before = unpack(BLOCK, data, offset)
        content = data[offset + BLOCK.size:offset + BLOCK.size + stored]
        if zlib.crc32(content) != crc or codec > 1 or first != sequence or not index and before != revision:
            raise Damaged(f"byte {offset}: wrong block")
        if codec == 1:
            content = decompress(content)
        if len(content) != raw:
            raise Damaged(f"byte {offset}: the block has another size")
        digest.update(content)
        at = 0
        for i in range(count):
            position, size = struct.unpack_from("<QI", content, at)
            message, at = content[at + 12:at + 12 + size], at + 12 + size
            header = commit_header(message)
            if header.get(17, 1) > LOG_FORMAT:
                raise Damaged(f"byte {offset}: commit {header[12]} has version {header[17]} of the log format: use a newer reader")
            if header[12] != sequence or i == 0 and header[6] != before + 1:
                raise Damaged(f"byte {offset}: commit {header[12]}, not {sequence}")
            if i == 0:
                index.append((offset, position, sequence, before, header[5]))
            yield position, message
            sequence, total = sequence + 1, total + 1
        offset += BLOCK.size + stored
    expected = b"CIDX" + struct.pack("<I", len(index)) + b"".join(ENTRY.pack(*e) for e in index)
    expected += struct.pack("<I", zlib.crc32(expected))
    if data[offset:offset + len(expected)] != expected:
        raise Damaged(f"byte {offset}: neither a block nor the index of the blocks before")
    end = offset + len(expected)
    magic, blocks, n, at, _, last, _, _, _, content, bound = unpack(FOOTER, data, end)
    header_crc, = struct.unpack_from("<I", data, HEADER.size - 4)
    if (magic, blocks, n, at, last, content, bound) != (b"CEND", len(index), total, offset, sequence - 1, digest.digest(), header_crc):
        raise Damaged(f"byte {end}: the footer is not that of the blocks before")
    if end + FOOTER.size != len(data):
        raise Damaged(f"byte {end + FOOTER.size}: something follows the end")


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    try:
        for position, message in list(commits(data)):  # all or none
            header = commit_header(message)
            print(f"position {position} realm {header[1].hex()} commit {header[12]} first revision {header[6]} "
                  f"time {header[5]} size {len(message)}")
    except Damaged as damage:
        sys.exit(f"{sys.argv[1]}: {damage}")


if __name__ == "__main__":
    main()
