"""Pictures as files: folders of classes, sizes, modes, and sentences about what cannot be read."""

import re
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image
from stored_sets import put

from harsanyinet.datasets import DatasetDamagedError
from harsanyinet.datasets.picture_files import read_folder

ENDINGS = ".png .jpg .jpeg .bmp .gif .webp .tif .tiff .ppm .pgm"


def enlarged(png, side):
    """The same picture, except that it claims to have many more pixels, so that reading it would fill the memory."""
    header = png[12:16] + struct.pack(">II", side, side) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


def grey(value=0, height=2, width=3):
    return np.full((height, width), value, np.uint8)


def save(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array)).save(path, **options)
    return path


@pytest.fixture
def root(tmp_path):
    """Two classes of two grey pictures."""
    for value, name in enumerate(("cat/1", "cat/2", "dog/1", "dog/2")):
        save(tmp_path / "pets" / f"{name}.png", grey(value))
    return tmp_path / "pets"


class TestReadFolder:
    def test_the_order_is_that_of_the_names(self, tmp_path):
        names = ["b/2.png", "a/10.png", "a/9.bmp", "b/1.tif", "B/z.PNG", "B/a.pgm"]
        for value, name in enumerate(names):
            save(tmp_path / "pets" / name, grey(value))
        pixels, labels = read_folder(tmp_path / "pets")
        assert pixels.shape == (6, 2, 3, 1)
        assert pixels.dtype == np.uint8
        assert pixels[:, 0, 0, 0].tolist() == [5, 4, 1, 2, 3, 0]
        assert labels.tolist() == ["B", "B", "a", "a", "b", "b"]
        assert pixels.flags.writeable
        again, _ = read_folder(str(tmp_path / "pets"))
        np.testing.assert_array_equal(pixels, again)

    @pytest.mark.parametrize(
        "name",
        ["cat/notes.txt", "cat/._1.png", "cat/.1.png", "notes.png", "dog/1", "dog/1.npy", "cat/.png/1.png"],
    )
    def test_what_is_no_picture_is_left_out(self, root, name):
        before, _ = read_folder(root)
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"no picture")
        after, labels = read_folder(root)
        np.testing.assert_array_equal(after, before, strict=True)
        assert labels.tolist() == ["cat", "cat", "dog", "dog"]

    @pytest.mark.parametrize("name", [".ipynb_checkpoints", "cat/folder.png"])
    def test_folders_that_are_no_class_are_left_out(self, root, name):
        (root / name).mkdir()
        assert read_folder(root)[1].tolist() == ["cat", "cat", "dog", "dog"]

    @pytest.mark.parametrize("ending", ENDINGS.split())
    def test_every_format(self, tmp_path, ending):
        colour = np.full((8, 16, 3), (200, 40, 90), np.uint8)
        for name in ("a/1", "a/2", "b/1", "b/2"):
            save(tmp_path / "pets" / f"{name}{ending}", colour if ending != ".pgm" else colour[..., 0])
        pixels, _ = read_folder(tmp_path / "pets")
        assert pixels.shape == (4, 8, 16, 1 if ending == ".pgm" else 3)
        np.testing.assert_allclose(pixels[3, 4, 7], (200, 40, 90)[: pixels.shape[3]], atol=3)  # JPEG and WebP lose some

    def test_grey_and_colour_mixed(self, root):
        rng = np.random.default_rng(0)
        colour, plain = rng.integers(0, 256, (2, 3, 3), np.uint8), rng.integers(0, 256, (2, 3), np.uint8)
        save(root / "cat" / "2.png", plain)
        save(root / "dog" / "1.png", colour)
        pixels, _ = read_folder(root)
        assert pixels.shape == (4, 2, 3, 3)
        np.testing.assert_array_equal(pixels[2], colour)
        for channel in range(3):
            np.testing.assert_array_equal(pixels[1, ..., channel], plain)

    @pytest.mark.parametrize(
        ("array", "ending", "expected"),
        [
            (np.array([[0, 255, 256], [300, 32768, 65535]], np.uint16), ".png", [[0, 0, 1], [1, 128, 255]]),
            (np.array([[0, 255, 256], [300, 32768, 65535]], np.uint16), ".pgm", [[0, 0, 1], [1, 128, 255]]),
            (np.array([[0, 255, 256], [300, 32768, 65535]], ">u2"), ".tif", [[0, 0, 1], [1, 128, 255]]),
            (np.array([[True, False, True], [False, False, True]]), ".png", [[255, 0, 255], [0, 0, 255]]),
            (np.arange(12, dtype=np.uint8).reshape(2, 3, 2), ".png", [[0, 2, 4], [6, 8, 10]]),
        ],
        ids=["16 bits", "16 bits as PGM", "16 bits, big endian", "1 bit", "transparent"],
    )
    def test_other_depths_of_grey(self, root, array, ending, expected):
        save(root / "cat" / f"0{ending}", array)
        pixels, _ = read_folder(root)
        assert pixels.shape == (5, 2, 3, 1)
        np.testing.assert_array_equal(pixels[0, ..., 0], expected)

    @pytest.mark.parametrize("dtype", [np.int32, np.float32])
    def test_32_bits_are_refused(self, root, dtype):
        path = save(root / "cat" / "3.tiff", grey().astype(dtype))
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            read_folder(root)
        assert str(caught.value) == f"{path} must have 8 or 16 bits per channel, however: 32; save it again with 8"

    def test_transparency_is_dropped(self, root):
        colour = np.full((2, 3, 4), (10, 20, 30, 0), np.uint8)
        save(root / "cat" / "1.png", colour)
        save(root / "cat" / "2.png", np.full((2, 3, 2), (40, 0), np.uint8))  # grey
        colour[0, 0] = 200
        palette = Image.fromarray(colour[..., :3]).quantize(2)
        palette.save(root / "dog" / "1.png", transparency=b"\x10\x80")  # of which Pillow would warn
        pixels, _ = read_folder(root)
        assert pixels[:, 1, 2].tolist() == [[10, 20, 30], [40, 40, 40], [10, 20, 30], [3, 3, 3]]

    def test_the_first_frame_of_an_animation(self, root):
        frames = [Image.fromarray(np.full((2, 3, 3), colour, np.uint8)) for colour in ((250, 0, 0), (0, 0, 250))]
        frames[0].save(root / "cat" / "1.gif", save_all=True, append_images=frames[1:])
        np.testing.assert_array_equal(read_folder(root)[0][0], np.asarray(frames[0]))

    def test_pictures_are_turned_upright(self, root):
        lying = np.arange(6, dtype=np.uint8).reshape(3, 2)
        exif = Image.Exif()
        exif[0x0112] = 6  # to be shown after a quarter turn to the right
        save(root / "cat" / "1.png", lying, exif=exif)
        np.testing.assert_array_equal(read_folder(root)[0][0, ..., 0], np.rot90(lying, -1))

    def test_different_sizes(self, root):
        path = save(root / "dog" / "1.png", grey(height=5, width=4))
        save(root / "dog" / "2.png", grey(height=6, width=4))
        with pytest.raises(ValueError, match="all pictures") as caught:
            read_folder(root)
        assert str(caught.value) == (
            "all pictures must have 2 x 3 pixels (height x width), as the first has, however: "
            f"{path} has 5 x 4; to scale them, call read_folder(folder, size=(height, width))"
        )

    @pytest.mark.parametrize("size", [(4, 12), [4, 12], tuple(np.array([4, 12]))])
    def test_scaling(self, root, size):
        left = np.full((8, 6), 250, np.uint8)
        left[:, 3:] = 50
        save(root / "dog" / "2.png", left)
        save(root / "cat" / "2.png", np.full((31, 7, 3), (10, 20, 30), np.uint8))
        pixels, labels = read_folder(root, size)
        assert pixels.shape == (4, 4, 12, 3)
        assert (pixels[1] == (10, 20, 30)).all()
        assert (pixels[3, :, :4] > 240).all()
        assert (pixels[3, :, 8:] < 60).all()
        assert labels.tolist() == ["cat", "cat", "dog", "dog"]

    def test_scaling_to_the_size_they_have_changes_nothing(self, root):
        save(root / "cat" / "1.png", np.random.default_rng(0).integers(0, 256, (2, 3), np.uint8))
        np.testing.assert_array_equal(read_folder(root, (2, 3))[0], read_folder(root)[0], strict=True)

    @pytest.mark.parametrize("size", [8, (8,), (8, 8, 3), (0, 8), (8, -1), (8.0, 8), "88", ("8", "8")])
    def test_refuses_sizes(self, root, size):
        with pytest.raises(ValueError, match="size") as caught:
            read_folder(root, size)
        assert (
            str(caught.value)
            == f"size must be a height and a width, two positive whole numbers, however: size={size!r}"
        )

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda b: b"no picture", "its content is that of no picture"),
            (lambda b: b"", "its content is that of no picture"),
            (lambda b: b[:-40], ".*(truncated|not enough|broken).*"),  # in the middle of the pixels
            (lambda b: b[:2] + b[2:].replace(b"IDAT", b"\xff\xff\xff\xff"), ".+"),
            (lambda b: enlarged(b, 50_000), "Image size .* exceeds limit .*"),
        ],
        ids=["text", "empty", "cut short", "broken", "bomb"],
    )
    def test_a_damaged_picture(self, root, damage, reason):
        path = save(root / "dog" / "1.png", np.random.default_rng(0).integers(0, 256, (20, 20), np.uint8))
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(
            DatasetDamagedError,
            match=f"^{path} must be a picture that can be read, however: {reason}; replace or delete it$",
        ) as caught:
            read_folder(root, (2, 3))
        assert "\n" not in str(caught.value)
        assert str(caught.value).count(str(path)) == 1

    def test_a_class_with_one_picture(self, root):
        path = save(root / "bird" / "1.png", grey())
        with pytest.raises(ValueError, match="bird") as caught:
            read_folder(root)
        assert str(caught.value) == (
            f"the class bird must have at least two pictures ({ENDINGS}), however: only {path}; add some or remove "
            "its folder"
        )

    def test_an_empty_class(self, root):
        put(root / "bird", {"notes.txt": b""}, zipped=False)
        with pytest.raises(ValueError, match="bird") as caught:
            read_folder(root)
        assert str(caught.value) == (
            f"the class bird must have at least two pictures ({ENDINGS}), however: none in {root / 'bird'}; add some "
            "or remove its folder"
        )

    @pytest.mark.parametrize(("name", "found"), [("nowhere", "there is none"), ("cat/1.png", "it is a file")])
    def test_no_folder(self, root, name, found):
        with pytest.raises(ValueError, match="folder") as caught:
            read_folder(root / name)
        assert str(caught.value) == (
            f"{root / name} must be a folder with one folder of pictures per class, however: {found}; check the path"
        )

    @pytest.mark.parametrize(("folders", "found"), [(["cat"], "cat"), ([], "none")])
    def test_fewer_than_two_classes(self, tmp_path, folders, found):
        (tmp_path / "pets").mkdir()
        save(tmp_path / "pets" / "1.png", grey())
        for name in folders:
            save(tmp_path / "pets" / name / "1.png", grey())
        with pytest.raises(ValueError, match="folders") as caught:
            read_folder(tmp_path / "pets")
        assert str(caught.value) == (
            f"{tmp_path / 'pets'} must hold at least two folders, one per class, however: {found}; give the folder in "
            "which the folders of the classes are"
        )

    def test_without_pillow(self, root, monkeypatch):
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(ImportError, match=r"^reading pictures needs Pillow: pip install 'harsanyinet\[images\]'$"):
            read_folder(root)
