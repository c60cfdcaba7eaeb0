"""The options that several commands share, each said once."""

from pathlib import Path
from typing import Annotated

import typer

NAMED = "A known name (see: cutaway models), a folder or a file (./folder), or owner/name on the Hub."

Text = Annotated[str | None, typer.Argument(show_default=False, help='The text, or "-" for standard input.')]
File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the text from a file: UTF-8, or UTF-16 with its mark.")]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help=NAMED)]
Tokenizer = Annotated[Path | None, typer.Option("--tokenizer", metavar="DIR", help="Tokenizer files, for a folder without any.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="float32, float64, float16 or bfloat16; default: the file's own.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, mps …")]
Offline = Annotated[bool, typer.Option("--offline", help="Do not use the network.")]
Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the JSON to a file instead.")]
