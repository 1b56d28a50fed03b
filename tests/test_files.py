import json
import os
import stat

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from harsanyinet import files
from harsanyinet.files import ModelFileError, check_place, load_arrays, placed, save_arrays, write_beside

ARRAYS = {
    "bool": np.array([[True, False], [False, True]]),
    "no rows": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5),
    "bool scalar": np.array(True),
    "strided": np.arange(24.0).reshape(4, 6)[::2, ::-3],
    "fortran": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    "big endian": np.arange(4, dtype=">i4"),
    "odd floats": np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]),
    "half": np.arange(3, dtype=np.float16),
    "naïve \n": np.arange(5, dtype=np.uint8),
}
META = {"name": "Zoë", "columns": ["age", "sex"], "nested": {"k": [1, 2.5, None, True]}, "empty": {}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.safetensors"


def tagged(**tags):
    """A safetensors file with tags of our choice."""
    return save({"a": np.zeros(3)}, metadata={"format": "harsanyinet", "kind": "model", "version": "1", **tags})


def names(folder):
    return [path.name for path in folder.iterdir()]


def reason(path, kind="model"):
    """The message of the refusal, which must be one sentence that names the file."""
    with pytest.raises(ModelFileError) as caught:
        load_arrays(path, kind)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


class TestRoundTrip:
    @pytest.mark.parametrize("name", ARRAYS)
    def test_each_array_comes_back_exactly(self, path, name):
        before = ARRAYS[name]
        save_arrays(path, "model", {name: before}, {})
        arrays, _ = load_arrays(path, "model")
        after = arrays[name]
        assert list(arrays) == [name]
        assert after.dtype == before.dtype.newbyteorder("=")
        assert after.shape == before.shape
        assert after.tobytes() == before.astype(after.dtype).tobytes()
        assert after.flags.writeable
        assert after.flags.c_contiguous

    def test_all_arrays_and_meta_together(self, path):
        save_arrays(path, "explanation", ARRAYS, META)
        arrays, meta = load_arrays(str(path), "explanation")
        assert meta == META
        assert set(arrays) == set(ARRAYS)
        for name, before in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], before, strict=name != "big endian")

    def test_nothing_at_all(self, path):
        save_arrays(path, "model", {}, {})
        assert load_arrays(path, "model") == ({}, {})

    def test_the_callers_arrays_are_left_alone(self, path):
        array = np.asfortranarray(np.ones((2, 3)))
        save_arrays(path, "model", {"a": array}, {})
        assert array.flags.f_contiguous
        np.testing.assert_array_equal(array, 1)

    def test_an_existing_file_is_replaced(self, path):
        save_arrays(path, "model", ARRAYS, META)
        save_arrays(path, "model", {"a": np.ones(1)}, {"b": 1})
        arrays, meta = load_arrays(path, "model")
        assert list(arrays) == ["a"]
        assert meta == {"b": 1}


class TestSaveRefuses:
    @pytest.mark.parametrize(
        ("meta", "message"),
        [
            ({"loss": float("nan")}, "strict JSON"),
            ({"loss": [1.0, float("inf")]}, "strict JSON"),
            ({"n": np.int64(3)}, "strict JSON"),
            ({"where": {1, 2}}, "strict JSON"),
            ({"classes": [{0: "no", 1: "yes"}]}, "str keys at every level, however: 0"),
            ({1: "top"}, "str keys at every level, however: 1"),
        ],
    )
    def test_meta_that_json_would_change_or_reject(self, path, meta, message):
        with pytest.raises(ValueError, match=message):
            save_arrays(path, "model", {}, meta)
        assert not path.exists()

    @pytest.mark.parametrize(
        "array",
        [
            *(np.array(["a"]), np.array([None]), np.zeros(2, complex), np.zeros(2, "M8[s]")),
            pytest.param(
                np.zeros(2, np.longdouble),
                marks=pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is double here"),
            ),
        ],
    )
    def test_array_types_that_cannot_be_stored(self, path, array):
        with pytest.raises(ValueError, match=r"arrays must be boolean, integer.* however: 'weights' is "):
            save_arrays(path, "model", {"weights": array}, {})
        assert not path.exists()

    def test_the_name_that_safetensors_keeps_for_itself(self, path):
        with pytest.raises(ValueError, match="__metadata__"):
            save_arrays(path, "model", {"__metadata__": np.zeros(2)}, {})

    def test_a_header_that_could_not_be_read_back(self, path, monkeypatch):
        monkeypatch.setattr(files, "MAX_HEADER", 1000)
        with pytest.raises(ValueError, match="must fit in 1000 bytes, however"):
            save_arrays(path, "model", {}, {"long": "x" * 1000})
        assert not path.exists()


class TestLoadRefuses:
    def test_a_missing_file(self, path):
        with pytest.raises(
            FileNotFoundError, match=r"cannot load a model from .*some\.safetensors: there is no such file"
        ):
            load_arrays(path, "model")

    def test_a_folder(self, tmp_path):
        assert "is a folder; give the path of the file" in reason(tmp_path)

    @pytest.mark.parametrize("data", [b"", b"short", b"a text that is no safetensors file", b"PK\x03\x04" + bytes(90)])
    def test_another_format(self, path, data):
        path.write_bytes(data)
        assert "is not a safetensors file; give a file that harsanyinet saved" in reason(path)

    @pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
    def test_a_foreign_safetensors_file(self, path, metadata):
        save_file({"a": np.zeros(3)}, path, metadata=metadata)
        assert "is a safetensors file of another program; give a file" in reason(path)

    def test_a_foreign_file_with_a_type_unknown_to_numpy(self, path):
        header = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
        assert "another program" in reason(path)

    def test_another_kind(self, path):
        save_arrays(path, "explanation", ARRAYS, META)
        assert "it holds an explanation, not a model;" in reason(path)

    @pytest.mark.parametrize("version", ["2", "10"])
    def test_a_newer_version(self, path, version):
        path.write_bytes(tagged(version=version, meta="{}", sha256=""))
        message = reason(path)
        assert f"written by a newer harsanyinet (file format {version}, and this one reads 1); upgrade" in message

    def test_an_older_version(self, path):
        path.write_bytes(tagged(version="0", meta="{}", sha256=""))
        message = reason(path)
        assert "written by an older harsanyinet (file format 0, and this one reads 1); make and save it" in message
        assert "newer" not in message

    @pytest.mark.parametrize("tags", [{}, {"meta": "{}"}, {"meta": "{}", "sha256": "0" * 64}, {"version": "one"}])
    def test_a_checksum_that_is_absent_or_wrong(self, path, tags):
        path.write_bytes(tagged(**tags))
        assert "is damaged or cut short; copy it or save it again" in reason(path)

    @pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000])
    def test_meta_that_is_not_an_object_under_a_right_checksum(self, path, text):
        checksum = files.checksum("model", text, {"a": np.zeros(3)})
        path.write_bytes(tagged(meta=text, sha256=checksum))
        assert "is damaged" in reason(path)

    def test_a_header_nested_beyond_measure(self, path):
        header = b'{"a":' + b"[" * 100_000
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        assert "is damaged" in reason(path)

    def test_a_changed_meta_or_array(self, path):
        arrays = {"a": np.zeros(3)}
        for text, stored in (('{"b": 2}', arrays), ('{"b": 1}', {"a": np.ones(3)}), ('{"b": 1}', {"c": np.zeros(3)})):
            tags = {"format": "harsanyinet", "kind": "model", "version": "1", "meta": text}
            checksum = files.checksum("model", json.dumps({"b": 1}), arrays)
            path.write_bytes(save(stored, metadata={**tags, "sha256": checksum}))
            assert "is damaged" in reason(path)

    def test_a_shape_or_type_changed_while_the_bytes_stay(self, path):
        checksum = files.checksum("model", "{}", {"a": np.zeros((2, 3), np.float32)})
        for array in (np.zeros((3, 2), np.float32), np.zeros(6, np.float32), np.zeros((2, 3), np.int32)):
            tags = {"format": "harsanyinet", "kind": "model", "version": "1", "meta": "{}", "sha256": checksum}
            path.write_bytes(save({"a": array}, metadata=tags))
            assert "is damaged" in reason(path)


class TestDamage:
    @pytest.fixture
    def whole(self, path):
        arrays = {"b": np.array([True, False]), "w": np.arange(3.0), "n": np.zeros((0, 2))}
        save_arrays(path, "model", arrays, {"name": "Zoë", "n": [1, 0]})
        return path.read_bytes()

    def test_every_flipped_byte_is_caught(self, path, whole):
        for at in range(len(whole)):
            for flip in (0x01, 0x20, 0xFF):
                path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
                with pytest.raises(ModelFileError):
                    load_arrays(path, "model")

    def test_every_truncation_is_caught(self, path, whole):
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            message = reason(path)
            assert "is damaged or cut short" in message if length > 8 else "is not a safetensors file" in message

    def test_bytes_too_many_are_caught(self, path, whole):
        path.write_bytes(whole + b"\0")
        assert "is damaged" in reason(path)


class TestWriteBeside:
    def test_writes_and_replaces(self, tmp_path):
        path = tmp_path / "a"
        write_beside(path, b"old")
        write_beside(str(path), b"new")
        assert path.read_bytes() == b"new"
        assert names(tmp_path) == ["a"]

    def test_a_relative_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_beside("a", b"data")
        assert (tmp_path / "a").read_bytes() == b"data"

    @pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX systems")
    def test_permissions_are_the_usual_ones_and_a_replaced_file_keeps_its_own(self, tmp_path):
        write_beside(tmp_path / "ours", b"")
        (tmp_path / "usual").write_bytes(b"")
        mode = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
        assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == mode
        (tmp_path / "ours").chmod(0o600)
        write_beside(tmp_path / "ours", b"new")
        assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o600

    @pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights on Windows")
    def test_a_link_is_written_through(self, tmp_path):
        (tmp_path / "far").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
        write_beside(tmp_path / "link", b"data")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "far" / "file").read_bytes() == b"data"

    def test_a_missing_folder(self, tmp_path):
        with pytest.raises(
            FileNotFoundError, match=r"cannot write a\.bin: there is no folder .*nowhere; create it first"
        ):
            write_beside(tmp_path / "nowhere" / "a.bin", b"data")
        assert names(tmp_path) == []

    @pytest.mark.parametrize("step", ["replace", "fsync"])
    @pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
    @pytest.mark.parametrize("old", [b"old", None])
    def test_an_interrupted_write_leaves_the_old_file_and_no_litter(self, tmp_path, monkeypatch, step, error, old):
        def fail(*args):
            raise error

        path = tmp_path / "a"
        if old is not None:
            path.write_bytes(old)
        monkeypatch.setattr(os, step, fail)
        with pytest.raises(type(error)):
            save_arrays(path, "model", ARRAYS, META)
        assert names(tmp_path) == ([] if old is None else ["a"])
        assert old is None or path.read_bytes() == old

    def test_the_data_is_on_disk_before_it_takes_its_place(self, tmp_path, monkeypatch):
        steps = []
        fsync, replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", lambda *args: (steps.append("fsync"), fsync(*args))[1])
        monkeypatch.setattr(os, "replace", lambda *args: (steps.append("replace"), replace(*args))[1])
        write_beside(tmp_path / "a", b"data")
        assert steps == ["fsync", "replace"]
        assert (tmp_path / "a").read_bytes() == b"data"

    def test_a_folder_in_its_place_is_noticed_first(self, tmp_path):
        for attempt in (check_place, lambda path: write_beside(path, b"data")):
            with pytest.raises(IsADirectoryError, match="it is a folder; give the path of a file"):
                attempt(tmp_path)
        assert names(tmp_path) == []

    @pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX systems")
    def test_a_pipe_is_written_to_and_stays_a_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        write_beside(tmp_path / "pipe", b"data")
        assert os.read(reader, 10) == b"data"
        os.close(reader)
        assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_a_file_that_is_written_in_parts(self, tmp_path, error):
        def write(fails):
            with placed(tmp_path / "a") as beside, beside.open("wb") as file:
                file.write(b"one")
                if fails:
                    raise error
                file.write(b"two")

        with pytest.raises(error):
            write(fails=True)
        assert names(tmp_path) == []
        write(fails=False)
        assert (tmp_path / "a").read_bytes() == b"onetwo"
        assert names(tmp_path) == ["a"]


def test_arrays_are_read_as_safetensors_reads_them(tmp_path):
    from safetensors.numpy import load

    rng = np.random.default_rng(0)
    kinds = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
    arrays = {f"{kind} {i}": rng.integers(0, 2, shape).astype(kind) for kind in kinds
              for i, shape in enumerate([(), (0,), (3,), (2, 0, 4), (2, 3)])}  # fmt: skip
    save_arrays(tmp_path / "file", "model", arrays, {})
    found, expected = load_arrays(tmp_path / "file", "model")[0], load((tmp_path / "file").read_bytes())
    assert found.keys() == expected.keys() == arrays.keys()
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        assert array.flags.writeable
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [-3]}, {"shape": [True, 3]}, {"shape": [2**62, 4]}, {"shape": 3}, {"dtype": "F128"}, {"dtype": None},
        {"data_offsets": [8, 32]}, {"data_offsets": [0, 16]}, {"data_offsets": [0, 24, 8]}, {"data_offsets": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_lies_is_damage(tmp_path, entry):
    """Whatever a header says, nothing outside the array is read, and the sentence is the same."""
    path = tmp_path / "file"
    save_arrays(path, "model", {"a": np.arange(3.0)}, {})
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["a"] |= entry
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        load_arrays(path, "model")
