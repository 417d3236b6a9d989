"""Every kind of file becomes an upright RGB image or an error that names it."""

import io
import struct
import sys
import types
import zlib

import numpy as np
import pytest
from PIL import Image

from levelfield.data.catalog import Catalog
from levelfield.data.checks.dataset import survey
from levelfield.data.images import MOST_PIXELS, as_rgb, decode_image, read_image, read_small, verify_image
from levelfield.errors import BadInput, MissingExtra


def smooth(size=(40, 30)):
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    return Image.fromarray(np.stack([x, y, 255 - x], axis=-1).astype(np.uint8))


def corner(image):
    return image.getpixel((0, 0))


# What an orientation means, by the standard: where the first row and the first column of the file really are.
STORED_AS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: a.transpose(1, 0, 2)[::-1],
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: a.transpose(1, 0, 2)[:, ::-1],
}


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("orientation", STORED_AS)
def test_exif_orientation_is_applied(tmp_path, orientation, suffix):
    upright = np.asarray(smooth())
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED_AS[orientation](upright)))
    stored.save(tmp_path / f"a.{suffix}", exif=exif)
    assert np.array_equal(np.asarray(read_image(tmp_path / f"a.{suffix}")), upright)


@pytest.mark.parametrize("exif", [{0x0112: 0}, b"Exif\x00\x00this is no TIFF header"], ids=["illegal", "damaged"])
def test_an_orientation_that_is_none_means_as_it_is(tmp_path, exif):
    if isinstance(exif, dict):
        written = Image.Exif()
        written.update(exif)
        exif = written
    smooth().save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").size == (40, 30)


@pytest.mark.parametrize(
    ("mode", "colour", "expected", "transparency"),
    [
        ("RGBA", (0, 0, 255, 0), 255, None),
        ("RGBA", (0, 0, 0, 128), 127, None),  # half transparent: mixed with white
        ("LA", (0, 0), 255, None),
        ("RGB", (1, 2, 3), 255, (1, 2, 3)),
        ("L", 7, 255, 7),
        ("1", 1, 255, None),
        ("L", 99, 99, None),
    ],
)
def test_every_mode_becomes_rgb_and_transparent_becomes_white(tmp_path, mode, colour, expected, transparency):
    options = {} if transparency is None else {"transparency": transparency}
    Image.new(mode, (4, 4), colour).save(tmp_path / "a.png", **options)
    assert corner(read_image(str(tmp_path / "a.png"))) == (expected,) * 3


@pytest.mark.parametrize(
    ("kind", "transparency", "expected"),
    [("png", 0, (255,) * 3), ("gif", 0, (255,) * 3), ("png", bytes([128, 255]), (127,) * 3)],
)
def test_transparent_palette_entry_becomes_white(tmp_path, kind, transparency, expected):
    image = Image.new("P", (4, 4), 0)
    image.putpalette([0, 0, 0, 200, 100, 50])
    image.putpixel((1, 1), 1)
    image.save(tmp_path / f"a.{kind}", transparency=transparency)
    read = read_image(tmp_path / f"a.{kind}")
    assert corner(read) == expected
    assert read.getpixel((1, 1)) == (200, 100, 50)


def test_cmyk_jpeg(tmp_path):
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=95)
    red, green, blue = corner(read_image(tmp_path / "a.jpg"))
    assert red > 230
    assert max(green, blue) < 25


def test_16_bits_are_scaled_not_clipped(tmp_path):
    values = np.array([[0, 257, 128 * 257, 65535, 300, 65400]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as opened:
        assert opened.mode.startswith("I")
    grey = np.asarray(read_image(tmp_path / "a.png"))[..., 0]
    assert grey.tolist() == [[0, 1, 128, 255, 1, 254]]


def test_16_bit_tiff_of_either_byte_order():
    values = np.array([[0, 65535, 257]])
    for mode, kind in (("I;16", "<u2"), ("I;16B", ">u2")):
        image = Image.frombytes(mode, (3, 1), values.astype(kind).tobytes())
        assert np.asarray(as_rgb(image))[..., 0].tolist() == [[0, 255, 1]]


def test_animation_gives_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert corner(read_image(tmp_path / "a.gif")) == (255, 0, 0)


def truncated_jpeg(path):
    smooth((400, 300)).save(path, quality=95)
    path.write_bytes(path.read_bytes()[:-2000])


def truncated_png(path):
    smooth((400, 300)).save(path)
    path.write_bytes(path.read_bytes()[:-500])


def promise(path, width, height):
    """A PNG of a few bytes whose header promises this many pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")))


def tiled(path):
    """A TIFF of 100 x 100 pixels in one enormous tile."""
    tags = [
        (256, 100),
        (257, 100),
        (258, 8),
        (259, 8),
        (262, 1),
        (277, 1),
        (322, 20_000),
        (323, 20_000),
        (324, 8),
        (325, 1),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    path.write_bytes(b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4))


BROKEN = [
    ("cut.jpg", truncated_jpeg, "damaged or truncated"),
    ("cut.png", truncated_png, "damaged or truncated"),
    ("empty.jpg", lambda path: path.touch(), "empty"),
    ("notes.jpg", lambda path: path.write_text("not a picture"), "not a known image format"),
    ("bomb.png", lambda path: promise(path, 100_000, 100_000), "bomb"),
    ("large.png", lambda path: promise(path, 13_000, 10_000), "it has 13,000 x 10,000 pixels; the limit is"),
    ("strip.png", lambda path: promise(path, 14_000_000, 8), "it has 14,000,000 x 8 pixels; the longer side"),
    ("tile.tif", tiled, "it has 100 x 100 pixels in tiles of 20,000 x 20,000; the limit is"),
    ("float.tif", lambda path: Image.new("F", (2, 2)).save(path), "floating-point"),
    ("long.tif", lambda path: Image.fromarray(np.array([[70000]], np.int32)).save(path), "32-bit"),
    ("none.jpg", lambda path: None, "does not exist"),
    ("dir.jpg", lambda path: path.mkdir(), "folder"),
]


@pytest.mark.parametrize("read", [read_image, verify_image])
@pytest.mark.parametrize(("name", "make", "reason"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_unreadable_image_is_named_with_the_reason(tmp_path, name, make, reason, read):
    make(tmp_path / name)
    with pytest.raises(BadInput, match=reason) as caught:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(("name", "make", "reason"), BROKEN[:-2], ids=[name for name, _, _ in BROKEN[:-2]])
def test_unreadable_bytes_are_refused_for_the_same_reason(tmp_path, name, make, reason):
    make(tmp_path / name)
    with pytest.raises(BadInput, match=f"Cannot read the upload: .*{reason}"):
        decode_image((tmp_path / name).read_bytes(), name="the upload", most_pixels=MOST_PIXELS)


def test_pillow_does_not_warn_of_an_image_that_is_accepted(tmp_path, recwarn):
    Image.new("1", (10_900, 11_000)).save(tmp_path / "large.png")
    assert verify_image(tmp_path / "large.png") is None
    assert not recwarn.list


def test_bytes_become_the_same_image_as_their_file(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    smooth().save(tmp_path / "a.jpg", exif=exif)
    found = decode_image((tmp_path / "a.jpg").read_bytes(), name="the upload", most_pixels=40 * 30)
    assert np.array_equal(np.asarray(found), np.asarray(read_image(tmp_path / "a.jpg")))
    with pytest.raises(BadInput, match="it has 40 x 30 pixels; the limit is 1,199"):
        decode_image((tmp_path / "a.jpg").read_bytes(), name="the upload", most_pixels=40 * 30 - 1)


def test_a_long_strip_whose_view_would_be_enormous_is_refused(tmp_path):
    path = tmp_path / "strip.png"
    for size, fits in (((2, 200), True), ((2, 201), False), ((201, 2), False)):
        Image.new("RGB", size).save(path)
        for read in (lambda: read_image(path), lambda: decode_image(path.read_bytes(), name="it", most_pixels=10**6)):
            if fits:
                assert read().size == size
            else:
                with pytest.raises(BadInput, match="the longer side must be at most 100 times the shorter"):
                    read()


def test_bytes_of_a_jpeg_with_very_many_scans_are_refused():
    content = io.BytesIO()
    smooth().save(content, "JPEG", progressive=True)
    plain = content.getvalue()
    scan = plain[plain.rindex(b"\xff\xda") : -2]
    decode_image(plain[:-2] + 400 * scan + plain[-2:], name="the upload", most_pixels=10**6)
    with pytest.raises(BadInput, match="it has more than 500 scans"):
        decode_image(plain[:-2] + 600 * scan + plain[-2:], name="the upload", most_pixels=10**6)


@pytest.mark.parametrize("name", ["IMG_1.HEIC", "IMG_1.jpg"])
def test_heic_without_the_extra_says_what_to_install(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    content = b"\x00\x00\x00\x18ftypheic"
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MissingExtra, match=r'a HEIC photo\. .*pip install "levelfield\[heic\]"'):
        read_image(tmp_path / name)
    with pytest.raises(MissingExtra, match=r'read the upload, a HEIC photo\. .* "levelfield\[heic\]"'):
        decode_image(content, name="the upload", most_pixels=9)


def test_heic_with_the_extra_is_opened_whatever_its_name(tmp_path, monkeypatch):
    def register():
        Image.register_open("HEIF", lambda file, name: smooth(), lambda head: head[4:8] == b"ftyp")

    monkeypatch.setattr(Image, "OPEN", dict(Image.OPEN))
    monkeypatch.setattr(Image, "ID", list(Image.ID))
    monkeypatch.setitem(sys.modules, "pillow_heif", types.SimpleNamespace(register_heif_opener=register))
    for name in ("a.heic", "a.jpg"):
        (tmp_path / name).write_bytes(b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00")
        assert read_image(tmp_path / name).size == (40, 30)


@pytest.mark.parametrize("kind", ["eps", "psd", "wmf", "fits"])
def test_only_kinds_of_images_are_opened_and_no_program_is_started(tmp_path, monkeypatch, kind):
    path = tmp_path / "photo.png"
    if kind == "eps":
        smooth().save(path, format="eps")
    else:
        start = {"psd": b"8BPS\0\1", "wmf": b"\xd7\xcd\xc6\x9a\0\0", "fits": b"SIMPLE  =  T"}[kind]
        path.write_bytes(start + bytes(200))
    monkeypatch.setattr("subprocess.Popen", _no_program)
    with pytest.raises(BadInput, match="its format is not a known image format"):
        read_image(path)
    assert survey(Catalog("one", (path,), np.array([0]), ("a",))).shorter_side is None


def _no_program(*_, **__):
    raise AssertionError("a program was started")


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("size", [(900, 300), (30, 10), (64, 64)])
def test_the_longer_side_of_a_small_image_has_the_wanted_length(size, suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", size, (200, 40, 40)).save(path)
    small = read_small(path, 64)
    assert max(small.size) == 64
    assert small.width / small.height == pytest.approx(size[0] / size[1], rel=0.05)
    np.testing.assert_allclose(np.asarray(small).mean(axis=(0, 1)), (200, 40, 40), atol=4)
