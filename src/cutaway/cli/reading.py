"""A text to read: an argument, a file, or standard input."""

import codecs
import sys
from pathlib import Path

from cutaway.errors import TextError

MARKS = (  # the longer first: UTF-32's mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(argument: str | None, file: Path | None) -> str:
    """The one text that was given. A file's last line break ends its last line and is not part of the text.

    Raises TextError if there is none, more than one, an empty one, or one that cannot be read.
    """
    if argument is not None and file is not None:
        raise TextError(f"A text and --file {file} were both given", expected="one of the two")
    if file is not None:
        text = decoded(file_bytes(file), str(file))
    elif argument == "-":
        text = decoded(sys.stdin.buffer.read(), "standard input")
    elif argument is not None:
        text = repaired(argument)
    else:
        raise TextError("No text was given", expected='a text in double quotes, --file FILE, or "-" for standard input')
    if not text:
        raise TextError("The text is empty", expected="at least one character")
    return text


def file_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise TextError(f"There is no file {file}", expected="a text file") from None
    except OSError as error:
        raise TextError(f"{file} cannot be read: {error.strerror}", expected="a text file") from None


def decoded(raw: bytes, source: str) -> str:
    encoding = next((name for mark, name in MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        given = f"{source} is not {encoding.upper()} (byte {error.start})"
        raise TextError(given, expected="UTF-8, or UTF-16 with its byte order mark") from None
    return text.removesuffix("\n").removesuffix("\r")


def repaired(argument: str) -> str:
    """Under a locale that is not UTF-8, Python keeps an argument's bytes as halves of surrogate pairs; join them again."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a half that stands for no byte; the tokenizers know what to do with it
        return argument
