"""What an architecture list means (docs/archs.md): parsing, precedence, expansion into images.

Pure functions; the environment comes in as a mapping.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

DEFAULT = "7.0 7.5 8.0 9.0 10.0 12.0 +PTX"
# What the compiler (NVRTC 12.9) makes code for.
KNOWN = frozenset({70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121})
# Names that TORCH_CUDA_ARCH_LIST knows, with torch's meaning.
NAMES = {
    "volta": "7.0+PTX",
    "turing": "7.5+PTX",
    "ampere": "8.0 8.6+PTX",
    "ampere+tegra": "8.7",
    "ada": "8.9+PTX",
    "hopper": "9.0+PTX",
    "blackwell": "10.0 10.3 12.0 12.1+PTX",
    "blackwell+tegra": "11.0",
}
REFUSED = frozenset({"native", "all", "all-major", "common"})
# Sources in the order of precedence, the default last. The last two use CMake's syntax, in which
# "80" asks for an image and PTX, "80-real" for an image.
SOURCES = (
    "-DSHOAL_CUDA_ARCHS",
    "SHOAL_CUDA_ARCHS",
    "CMAKE_CUDA_ARCHITECTURES",
    "TORCH_CUDA_ARCH_LIST",
    "CUDAARCHS",
)
CMAKE_SYNTAX = frozenset({"CMAKE_CUDA_ARCHITECTURES", "CUDAARCHS"})

ENTRY = re.compile(
    r"(?:(?:sm|compute)_)?(?:(?P<major>\d{1,2})\.(?P<minor>\d)|(?P<number>\d{2,3}))"
    r"(?P<suffix>[af]?)(?P<ptx>\+ptx)?",
    re.IGNORECASE,
)


class ArchError(ValueError):
    """A list that cannot be built as it stands."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Arch:
    """An architecture that code is compiled for: 80, 90a, 100f."""

    number: int
    suffix: str = ""

    @property
    def major(self) -> int:
        """8 of 80, 12 of 120."""
        return self.number // 10

    def __str__(self) -> str:
        """As op.json writes it."""
        return f"{self.number}{self.suffix}"


def parse_arch(text: str) -> Arch:
    """`80`, `90a` as op.json writes them."""
    match = re.fullmatch(r"(\d{2,3})([af]?)", text)
    if match is None:
        raise ArchError(f"'{text}' is no architecture (write 80, 90a, 100f)")
    return Arch(number=int(match[1]), suffix=match[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchList:
    """A parsed list: sorted and without duplicates, so that the order of its text is gone."""

    entries: tuple[Arch, ...]
    ptx: bool
    source: str
    text: str
    # What was set aside and why; an error in strict mode.
    complaints: tuple[str, ...] = ()

    def canonical(self) -> str:
        """`7.0 8.0 9.0a +PTX`."""
        words = [f"{a.major}.{a.number % 10}{a.suffix}" for a in self.entries]
        return " ".join([*words, *(["+PTX"] if self.ptx else [])])


def split(text: str) -> list[str]:
    """The words of a list: blanks, `;` and `,` separate."""
    return [word for word in re.split(r"[\s;,]+", text) if word]


def parse_word(word: str, *, cmake: bool) -> tuple[Arch | None, bool]:
    """The device that a word names (None for `+PTX` alone) and whether it asks for PTX."""
    if word.lower() == "+ptx":
        return None, True
    body, real, virtual = word, False, False
    if cmake or word.endswith(("-real", "-virtual")):
        real, virtual = word.endswith("-real"), word.endswith("-virtual")
        body = word.removesuffix("-real").removesuffix("-virtual")
    match = ENTRY.fullmatch(body)
    if match is None:
        raise ArchError(f"'{word}' is unknown (write 8.0 or 80)")
    digits = match["number"] or match["major"] + match["minor"]
    arch = Arch(number=int(digits), suffix=match["suffix"].lower())
    ptx = match["ptx"] is not None or virtual or (cmake and not real)
    return (None if virtual else arch), ptx


def parse_list(text: str, source: str) -> ArchList:
    """Parses one list in the syntax of its source.

    Raises:
        ArchError: for an empty list, and for `native` and `all`, which depend on the machine or the
            compiler at hand.
    """
    words = []
    for word in split(text):
        if word.lower() in REFUSED:
            raise ArchError(
                f"{source}={text}: '{word}' is refused: it means something else on every machine; "
                f"name the devices, e.g. {DEFAULT!r}"
            )
        words += NAMES[word.lower()].split() if word.lower() in NAMES else [word]
    entries: set[Arch] = set()
    ptx, complaints = False, []
    for word in words:
        try:
            arch, wants_ptx = parse_word(word, cmake=source in CMAKE_SYNTAX)
        except ArchError as error:
            complaints.append(f"{source}: entry {error}")
            continue
        ptx |= wants_ptx
        if arch is None:
            continue
        if arch.number in KNOWN:
            entries.add(arch)
        else:
            complaints.append(
                f"{source}: entry '{word}' is dropped: Shoal has no images for it "
                f"(known: {', '.join(str(n) for n in sorted(KNOWN))})"
            )
    if not entries and not ptx:
        raise ArchError(f"{source}={text}: no entry is left. {' '.join(complaints)}".strip())
    return ArchList(
        entries=tuple(sorted(entries)),
        ptx=ptx,
        source=source,
        text=text,
        complaints=tuple(sorted(set(complaints))),
    )


def choose_list(settings: Mapping[str, str]) -> ArchList:
    """The list of the first source that is set; others that differ become complaints.

    `settings` maps names of SOURCES to their text; empty texts count as not set.
    """
    given = [(name, settings[name]) for name in SOURCES if settings.get(name, "").strip()]
    if not given:
        return parse_list(DEFAULT, "default")
    chosen = parse_list(given[0][1], given[0][0])
    complaints = list(chosen.complaints)
    for name, text in given[1:]:
        try:
            other = parse_list(text, name)
        except ArchError as error:
            complaints.append(f"{name} is set beside {chosen.source} and not usable: {error}")
            continue
        if (other.entries, other.ptx) != (chosen.entries, chosen.ptx):
            complaints.append(
                f"{chosen.source}={chosen.text} and {name}={text} differ; {chosen.source} counts"
            )
    return ArchList(
        entries=chosen.entries,
        ptx=chosen.ptx,
        source=chosen.source,
        text=chosen.text,
        complaints=tuple(complaints),
    )


def family_archs(declared: Iterable[Arch], entries: Iterable[Arch]) -> list[Arch]:
    """The architectures that a family with the declared ones is compiled for.

    An entry `9.0` is the device 9.0: 90 and 90a where declared. An entry with a suffix is that
    image alone. An entry above a declared one of the same major (8.6 over 80) is a tuning image.
    """
    known = set(declared)
    plain = {a.number for a in known if not a.suffix}
    wanted: set[Arch] = set()
    for entry in entries:
        if entry.suffix:
            wanted |= {entry} & known
            continue
        wanted |= {a for a in known if a.number == entry.number}
        if any(n // 10 == entry.major and n <= entry.number for n in plain):
            wanted.add(entry)
    return sorted(wanted)
