"""Image files of any kind, PIL images and arrays as upright RGB; the files below a folder, without system files."""

from __future__ import annotations

import io
import logging
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from levelfield.errors import BadInput, LevelfieldError, MissingExtra, UnreadableImage, import_extra, nearest

_log = logging.getLogger(__name__)

Picture: TypeAlias = str | Path | Image.Image | np.ndarray
_USUAL = ".jpg .jpeg .jpe .jfif .png .bmp .gif .webp .avif .tif .tiff .ppm .pgm .pbm .pnm .tga .jp2 .heic .heif"
SUFFIXES = frozenset(_USUAL.split())
# Allowed formats, whatever the file name: Pillow supports more, and for some (EPS) it starts other programs.
_KINDS = ("JPEG", "MPO", "PNG", "BMP", "GIF", "WEBP", "AVIF", "TIFF", "PPM", "TGA", "JPEG2000", "HEIF")

MOST_PIXELS = 120_000_000  # cameras and phones take up to 108 million; decoding takes about 12 bytes for each
Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS and max(Image.MAX_IMAGE_PIXELS, MOST_PIXELS)  # above it, Pillow warns
_RATIO, _SCANS = 100, 500  # a progressive JPEG usually has 10 scans
_ORIENTATION, _TILE = 0x0112, (0x0142, 0x0143)  # EXIF and TIFF tags
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_HEIC_BRANDS = (b"ftyphei", b"ftyphev", b"ftypmif1", b"ftypmsf1")


def is_image(path: Path | str) -> bool:
    """Whether the file name is that of an image: a known suffix (any case), not a dot file, not in `__MACOSX`.

    >>> is_image(Path("cat/IMG_1.JPG")), is_image("cat/._IMG_1.JPG"), is_image("cat/notes.txt")
    (True, False, False)
    """
    folder, name = os.path.split(path)
    parts = folder.split(os.sep)
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".") and "__MACOSX" not in parts


@contextmanager
def open_image(file: Path | IO[bytes], name: str, *, most_pixels: int = MOST_PIXELS) -> Iterator[Image.Image]:
    """Open the file as an image; only its header is read. All images are opened here.

    An image that would take very much memory, here or in a view, is refused before it is decoded. Every exception
    becomes an `UnreadableImage` with the `name` of the image, or MissingExtra for HEIC without pillow-heif.
    """
    try:
        if isinstance(file, Path) and not file.is_file() and file.exists() and not file.is_dir():
            raise BadInput("it is not a regular file")  # opening a pipe would block
        with file.open("rb") if isinstance(file, Path) else file as content, _identified(content, name) as image:
            sides = f"it has {image.width:,} x {image.height:,} pixels"
            tags = getattr(image, "tag_v2", {})  # of a TIFF, which decodes whole tiles, also beyond its sides
            tile = tags.get(_TILE[0], 0), tags.get(_TILE[1], 0)
            if max(image.width * image.height, tile[0] * tile[1]) > most_pixels:
                raise BadInput(
                    f"{sides}{f' in tiles of {tile[0]:,} x {tile[1]:,}' * any(tile)}; the limit is {most_pixels:,}"
                )
            if max(image.size) > _RATIO * min(image.size):  # a view enlarges the shorter side
                raise BadInput(f"{sides}; the longer side must be at most {_RATIO} times the shorter")
            yield image
    except MissingExtra:
        raise
    except Exception as error:
        # Decoders raise almost anything on damaged files (OSError, SyntaxError, struct.error, ValueError ...).
        raise UnreadableImage(f"Cannot read {name}: {_reason(error)}.") from error


def _identified(file: IO[bytes], name: str) -> Image.Image:
    """The image with its header read; the reader of HEIC, whatever the file name, is registered on demand."""
    Image.init()
    try:
        return Image.open(file, formats=[kind for kind in _KINDS if kind in Image.OPEN])
    except UnidentifiedImageError as error:
        file.seek(0)
        head = file.read(12)
        if not head:
            raise BadInput("the file is empty") from error
        if not head[4:].startswith(_HEIC_BRANDS):
            raise
    import_extra("pillow_heif", "heic", f"Cannot read {name}, a HEIC photo. To read it").register_heif_opener()
    file.seek(0)
    return Image.open(file, formats=["HEIF"])


def read_image(path: Path | str, *, decoded: int = 0) -> Image.Image:
    """The image at `path`, decoded, upright (EXIF), RGB; transparency becomes white.

    decoded: decode a JPEG at 1/2, 1/4 or 1/8 of its size, the least that leaves this many pixels per side; 0: in full.
    Raises BadInput naming the path when it cannot be read in full, MissingExtra for HEIC without pillow-heif.
    """
    with open_image(Path(path), f"the image {path}") as image:
        if decoded:
            image.draft("RGB", (decoded, decoded))
        image.load()
        return as_rgb(image)


def decode_image(content: bytes, *, name: str, most_pixels: int) -> Image.Image:
    """The image in `content`, like `read_image` of a file with that content. Nothing is written to disk.

    For images from anywhere, so it also refuses those that would take very long. name: what errors call the image.
    """
    with open_image(io.BytesIO(content), name, most_pixels=most_pixels) as image:
        # each scan of a progressive JPEG passes over all pixels, and a scan may have a few bytes
        if image.format in ("JPEG", "MPO") and content.count(b"\xff\xda") > _SCANS:
            raise BadInput(f"it has more than {_SCANS} scans")
        image.load()
        return as_rgb(image)


def read_small(path: Path | str, side: int) -> Image.Image:
    """Like `read_image`, with at most `side` pixels on the longer side. JPEG is decoded at low resolution for speed."""
    image = read_image(path, decoded=2 * side)
    return ImageOps.contain(
        image, (side, side), Image.Resampling.BOX if max(image.size) > side else Image.Resampling.BILINEAR
    )


def verify_image(path: Path | str) -> None:
    """Raise what `read_image` would raise. Faster for JPEG: every byte is parsed, few pixels are computed."""
    read_image(path, decoded=1)


def grey_thumbnail(path: Path | str, side: int) -> np.ndarray:
    """(side, side) uint8: the whole image in grey, resized to a square. JPEG is decoded at low resolution for speed."""
    image = read_image(path, decoded=2 * side)
    return np.asarray(image.convert("L").resize((side, side), Image.Resampling.BOX))


def as_rgb(image: Image.Image) -> Image.Image:
    """An opened image of any mode as upright RGB; transparency becomes white, 16 bits are scaled to 8."""
    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except (SyntaxError, struct.error, ValueError, TypeError, KeyError, IndexError, EOFError):
        orientation = 1  # damaged EXIF with valid pixels is common; assume no rotation
    if orientation in _UPRIGHT:  # illegal values (CUB has 985 zeros) mean no rotation
        image = image.transpose(_UPRIGHT[orientation])
    if image.mode == "I" or image.mode.startswith("I;16"):
        image = _eight_bits(image)
    if image.mode == "F":
        raise BadInput("it has floating-point pixels, whose range is unknown; convert it to 8 bits")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    """Why an image cannot be read."""
    match error:
        case LevelfieldError():
            return str(error)
        case FileNotFoundError():
            return "the file does not exist"
        case IsADirectoryError():
            return "it is a folder"
        case PermissionError():
            return "permission denied"
        case Image.DecompressionBombError():
            return f"it declares more pixels than is safe to decode (a decompression bomb?): {error}".rstrip(".")
        case UnidentifiedImageError():
            return "its format is not a known image format"
    return f"it is damaged or truncated ({type(error).__name__}: {error})"


def _eight_bits(image: Image.Image) -> Image.Image:
    """65535 / 257 = 255 exactly. (Pillow's own conversion clips everything above 255 to white.)"""
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise BadInput("it has 32-bit integer pixels, whose range is unknown; convert it to 8 or 16 bits")
    grey = ((values + 128) // 257).astype(np.uint8)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return Image.fromarray(grey)


def listed(images: Picture | Sequence[Picture]) -> list[Picture]:
    """One image or many as a list; an array (images, height, width, 3) is many."""
    if isinstance(images, np.ndarray):
        return list(images) if images.ndim == 4 else [images]
    return [images] if isinstance(images, str | Path | Image.Image) else list(images)


def opened(picture: Picture, *, decoded: int = 0) -> Image.Image:
    """The picture as an upright RGB image. decoded: see `read_image`; images in memory are not reduced."""
    if isinstance(picture, str | Path):
        return read_image(picture, decoded=decoded)
    if isinstance(picture, Image.Image):
        return as_rgb(picture)
    array = np.asarray(picture)
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))):
        raise BadInput(f"An image array must be uint8 (height, width, 3), not {array.dtype} {array.shape}.")
    return as_rgb(Image.fromarray(array[:, :, 0] if array.shape[2:] == (1,) else array))


def files_below(top: Path, *, skip_unreadable: bool = False) -> Iterator[str]:
    """All files below `top`, as text: for a million files, creating paths would cost more than the walk.

    Hidden folders are left out. Links are followed unless they point to one of their parent folders. skip_unreadable:
    a warning names a sub-folder that cannot be read; otherwise it is refused.
    """
    if leads_up(top):
        return

    def stop(error: OSError) -> None:
        if not skip_unreadable or Path(error.filename) == top:
            raise BadInput(f"Cannot read the folder {error.filename}: {error.strerror}.") from error
        _log.warning("Skipped the folder %s: %s.", error.filename, error.strerror)

    seen: set[Path] = set()
    for folder, folders, files in os.walk(top, followlinks=True, onerror=stop):
        real = Path(folder).resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not hidden(name) and not leads_up(Path(folder, name))]
        yield from (os.path.join(folder, name) for name in files)


def images_below(top: Path, *, skip_unreadable: bool = False) -> list[Path]:
    """All image files below `top`, sorted. See `files_below`."""
    return sorted(Path(name) for name in files_below(top, skip_unreadable=skip_unreadable) if is_image(name))


def similar(path: Path) -> str:
    """The end of a message about a missing path: a similar path that exists, or nothing."""
    parent, missing = path.parent, path.name
    while not parent.is_dir() and parent != parent.parent:
        parent, missing = parent.parent, parent.name
    close = nearest(missing, [entry.name for entry in parent.iterdir()])
    return f" Did you mean {parent / close}?" if close else ""


def leads_up(folder: Path) -> bool:
    """Whether a folder is a link to one of its parents, which would make the walk endless."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def hidden(name: str) -> bool:
    """Whether a name is that of a dot file or of macOS's own folder."""
    return name.startswith(".") or name == "__MACOSX"
