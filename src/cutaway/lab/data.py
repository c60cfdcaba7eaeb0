"""The data sets that experiments measure on, by name: where each comes from, its licence, and the sha256 of every file.

Nothing is fetched. A set lies in a folder that CUTAWAY_DATA names; where it does not, what needs it is not measured here.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cutaway.errors import TextError
from cutaway.registry import no_such

VARIABLE = "CUTAWAY_DATA"


@dataclass(frozen=True)
class Data:
    """A data set. `files` are names within `folder`, each with its sha256."""

    name: str
    title: str
    source: str
    licence: str
    folder: str
    files: Mapping[str, str]


UDHR = Data(
    name="udhr",
    title="The Universal Declaration of Human Rights in 17 texts",
    source="https://github.com/nltk/nltk_data/blob/5db857e6f7df/packages/corpora/udhr2.zip",
    licence="public domain",
    folder="multilingual/udhr",
    files={
        "arb.txt": "19bde677877abd10877503e07871fe4a9d3eacd4e5f5f2d10067cdddc6fdcf19",
        "cmn_hans.txt": "1f4af56becaed374f4e0e14c91e095213710471c8ac64f1d60369583fe9a3f84",
        "cmn_hant.txt": "b309bfe9d928f6fcf2a79a288d90628df7393d44351756e0cd3689dc1be471f5",
        "deu.txt": "a3a5e4df6b755cb7b326341da3f255c2d6bfa5feabe13962479d7870c0ac9ba6",
        "ell_monotonic.txt": "1c85f1649bc45501ef1cb047e0d69618c0dfb40193462f193e87e6962752acf1",
        "eng.txt": "bbb18530dd8470980acb01971a0c5ca3c4dd3b69ba50c9922929211732d08888",
        "fin.txt": "f1e853df0c299fe2ab46aac144bf5c6a6119bf44965f7deb2f204e8e64ab93cf",
        "fra.txt": "5857e4eacde2c0731a8e82412913f4c2f7bf2c1c6b7c7f8418dce0e1907a3442",
        "hin.txt": "e006b6e34844b7baa064ae7cbf4bcf998b4424e5ddb82506e38addcadb9f1926",
        "jpn.txt": "a657b3e98f6a66c2b30400f6e4f67895425088790c03b2af01cd03303d1e1410",
        "kor.txt": "62394523122783cdb84700abf78f4aad0fcab2e4a8e13ad7e399ff3f5f5f50f7",
        "pol.txt": "5a79d8b5a1e5efb92a5c9484f975adbbc0a827d9d7eca9818912cfa096b2e329",
        "por_BR.txt": "88630f1b66cde115865775508f8644ffe1471af47fad46a4e1f4211d6e3405b9",
        "por_PT.txt": "7b0471b50068dd8d5d04beafc5cc628bbdca9ec066c4af1e9abc8f424335d8af",
        "rus.txt": "acd4ee5b872cce6e522d94bd5bdd5faa6dcc9986207310df5f5a3bad89f4c6cd",
        "spa.txt": "1bf73f972d21be83c87a61e61b05456b7b77b51d3459813809697d9b0ca09e4c",
        "tur.txt": "52647ca86977e1a0e2af8050e9a8e40dc2966d535e8d3de133f00fca8d2d0974",
    },
)
WSC = Data(
    name="wsc",
    title="The Winograd Schema Challenge: 283 schemas with pronoun and answers",
    source="https://github.com/qiaobaochen/Winograd-Schema-Challenge/blob/5e8d4ec60731/data/WSCollection.xml, made into JSON",
    licence="CC BY 4.0",
    folder="winograd",
    files={"wsc.json": "18d1f0e8bbfb8fb8f6135b18811b5752721bc9ec823d6330133f653fc7940bb0"},
)
WSC273 = Data(
    name="wsc273",
    title="WSC273: the first 273 Winograd schemas in cloze form, the right answer always first",
    source="https://github.com/vid-koci/bert-commonsense/blob/72486e3223ba/data/wsc273.txt, made into JSON",
    licence="CC BY 4.0",
    folder="winograd",
    files={"wsc273.json": "ec8a33708e80d8b41b27069d0ba61bac4afb4567509d599821f0c5b60e0275f1"},
)
PDP60 = Data(
    name="pdp60",
    title="PDP-60: the Pronoun Disambiguation Problems in cloze form",
    source="https://github.com/vid-koci/bert-commonsense/blob/72486e3223ba/data/PDP.txt, made into JSON",
    licence="CC BY 4.0",
    folder="winograd",
    files={"pdp60.json": "1312e320fe833e0c873e52bed5049dba99aa7fe313c7ad569e24212bb03c09d8"},
)
WINOGRANDE = Data(
    name="winogrande-dev",
    title="WinoGrande 1.1, the development set",
    source="https://github.com/tunx-cyber/FedLS/blob/3d9b3cca9d9c/dataset/winogrande/test.json, made into JSON lines",
    licence="CC BY",
    folder="winograd",
    files={"winogrande-dev.jsonl": "69f3d7f3a900d775339b04c7de672609c40fca573e50f594f2ae66d8782505be"},
)
ANALOGIES = Data(
    name="analogies",
    title="Mikolov's word analogies: 19,544 questions in 14 sections",
    source="https://github.com/tmikolov/word2vec/blob/20c129af1065/questions-words.txt",
    licence="Apache-2.0",
    folder="embeddings",
    files={"questions-words.txt": "8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36"},
)
WIKITEXT2 = Data(
    name="wikitext-2",
    title="WikiText-2 raw, the test split",
    source="https://github.com/Tylogi/TyloQuant/blob/7989d038b13c/data/wikitext-2-raw/wiki.test.raw, blank lines restored",
    licence="CC BY-SA 3.0",
    folder="lm/wikitext-2-raw",
    files={"wiki.test.raw": "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08"},
)
KNOWN = {data.name: data for data in (UDHR, WSC, WSC273, PDP60, WINOGRANDE, ANALOGIES, WIKITEXT2)}


def find(name: str, root: Path | None = None) -> list[Path]:
    """The files of a data set, below `root` or the folder that CUTAWAY_DATA names.

    Raises ModelError for a name that is not known; TextError for a set that is not here, or a file that is not what was published.
    """
    if name not in KNOWN:
        raise no_such("data set", name, list(KNOWN))
    data = KNOWN[name]
    if root is None and not os.environ.get(VARIABLE):
        raise _absent(data, f"{VARIABLE} is not set")
    folder = (root or Path(os.environ[VARIABLE])) / data.folder
    paths = [folder / file for file in data.files]
    for path in paths:
        if not path.is_file():
            raise _absent(data, f"there is no file {path}")
        if sha256(path.read_bytes()).hexdigest() != data.files[path.name]:
            raise TextError(f"{path} is not the file that was published", expected=f"sha256 {data.files[path.name]}", then=_get(data))
    return paths


def facts(names: Sequence[str], root: Path | None = None) -> dict[str, Any]:
    """What a record says of its data sets: title, licence, and the sha256 of their files; None of a set that is not here."""
    found: dict[str, Any] = {}
    for name in names:
        try:
            find(name, root)
        except TextError:
            found[name] = None
        else:
            found[name] = {"title": KNOWN[name].title, "licence": KNOWN[name].licence, "files": dict(KNOWN[name].files)}
    return found


def _absent(data: Data, why: str) -> TextError:
    return TextError(f"The data set {data.name} is not here: {why}", expected=data.title, then=_get(data))


def _get(data: Data) -> str:
    return f"unpack {data.source} so that its files are {data.folder}/{next(iter(data.files))} … below a folder, and set {VARIABLE} to it"
