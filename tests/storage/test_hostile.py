"""Model files are inert: nothing in them runs, and nothing doubtful is loaded.

Every forged directory is signed with the right key, so that the signature cannot hide
a hole behind it; a few tests then show that the signature alone would have stopped it.
"""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from reticent.errors import (
    CertificateError,
    InvalidParameterError,
    ModelFileError,
    NotDeployableError,
    ReticentError,
)
from reticent.prediction import PrivateVotingClassifier
from reticent.signing import new_key
from reticent.storage import load_model, save_model
from tests.storage.workshop import KEY, TWO, fitted, forge, logistic, sign, write


class Payload:
    """Makes a directory when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def folder(tmp_path):
    model, encoder, _ = fitted("voting-linear")
    save_model(tmp_path / "m", model, TWO, encoder=encoder, signing_key=KEY)
    return tmp_path / "m"


@pytest.fixture
def grove(tmp_path):
    model, encoder, _ = fitted("voting-trees")
    save_model(tmp_path / "t", model, encoder.schema, encoder=encoder, signing_key=KEY)
    return tmp_path / "t"


def load(path, **settings):
    return load_model(path, signing_key=KEY, **settings)


def npy(array, **settings):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), **settings)
    return buffer.getvalue()


def header(text, body=b""):
    """Return an npy file with a header of one's own making."""
    raw = text.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + body


def test_untouched_directory_loads(folder, grove):
    forge(folder)
    forge(grove)
    assert load(folder).kind == load(grove).kind == "voting"


# ----- code ------------------------------------------------------------------


def code_bearers(mark):
    payload = pickle.dumps(Payload(mark))
    objects = np.array([Payload(mark)], dtype=object)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("weights.npy", npy(objects))
    evil = f"__import__('os').mkdir({str(mark)!r})"
    return {
        "pickle": payload,
        "object array": npy(objects),
        "npz": zipped.getvalue(),
        "code as header": header(evil),
        "code as shape": header(
            f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({evil},)}}"
        ),
        "object dtype, pickle behind": header(
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", payload
        ),
    }


@pytest.mark.parametrize("name", code_bearers("x"))
def test_no_file_is_executed(name, folder, tmp_path):
    mark = tmp_path / "executed"
    content = code_bearers(mark)[name]
    forge(folder, files={"weights.npy": content})
    with pytest.raises(ModelFileError):
        load(folder)
    assert not mark.exists()


def test_the_payload_would_have_run(tmp_path):
    pickle.loads(code_bearers(tmp_path / "executed")["pickle"])
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("file", ["manifest.json", "manifest.sig"])
def test_pickle_in_place_of_json_is_not_executed(file, folder, tmp_path):
    mark = tmp_path / "executed"
    write(folder / file, pickle.dumps(Payload(mark)))
    if file == "manifest.json":
        sign(folder)
    with pytest.raises(ModelFileError):
        load(folder)
    assert not mark.exists()


# ----- size ------------------------------------------------------------------


def huge(shape):
    return header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}")


@pytest.mark.parametrize("shape", [(2**40,), (2**31, 2**31), (10**30,), (-1,)])
def test_headers_that_promise_more_than_the_file_holds(shape, folder):
    def change(manifest):
        manifest["arrays"]["weights"]["shape"] = [abs(size) for size in shape]

    forge(folder, change, {"weights.npy": huge(shape)})
    with pytest.raises(ModelFileError):
        load(folder)


def test_arrays_beyond_the_limit_are_not_read(folder):
    with pytest.raises(ModelFileError, match="largest=100"):
        load(folder, largest=100)


def test_long_files_are_not_read(folder):
    write(folder / "weights.npy", b"\0" * 100_000)
    with pytest.raises(ModelFileError, match="at most"):
        load(folder)
    write(folder / "manifest.json", b" " * (16 * 2**20 + 1))
    with pytest.raises(ModelFileError, match="at most"):
        load(folder)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "1" * 100_000, "NaN", "", "[]", "\xff"]
)
def test_json_that_is_deep_long_or_none_at_all(text, folder):
    write(folder / "manifest.json", text.encode("latin-1"))
    sign(folder)
    with pytest.raises(ModelFileError, match=r"manifest\.json cannot be read"):
        load(folder)


# ----- names and links -------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../weights", "/etc/passwd", "a/b", "..", "", "Weights", "a" * 80, "a\0b", ".x"],
)
def test_names_cannot_lead_out_of_the_directory(name, folder):
    def change(manifest):
        manifest["arrays"][name] = manifest["arrays"].pop("weights")

    forge(folder, change)
    with pytest.raises(ModelFileError):
        load(folder)


def test_folder_reads_no_other_names(folder):
    from reticent.storage.folders import Folder

    with Folder(folder) as opened:
        for name in ("../m/manifest.json", "/etc/passwd", "manifest", "a.npy.b.c"):
            with pytest.raises(ModelFileError, match="lower-case"):
                opened.read(name, most=100)


@pytest.mark.parametrize("file", ["manifest.json", "manifest.sig", "weights.npy"])
def test_links_are_not_followed(file, folder, tmp_path):
    (folder / file).rename(tmp_path / "elsewhere")
    (folder / file).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelFileError):
        load(folder)


def test_a_linked_directory_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(ModelFileError, match="not followed"):
        load(tmp_path / "link")


def test_pipes_and_directories_do_not_pass_for_files(folder):
    (folder / "weights.npy").unlink()
    os.mkfifo(folder / "weights.npy", 0o600)
    with pytest.raises(ModelFileError, match="not a plain file"):
        load(folder)
    (folder / "weights.npy").unlink()
    (folder / "weights.npy").mkdir(0o700)
    with pytest.raises(ModelFileError):
        load(folder)


# ----- who may read and write ------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o720])
def test_directories_open_to_others_are_refused(mode, folder):
    folder.chmod(mode)
    with pytest.raises(ModelFileError, match="others can read"):
        load(folder)


@pytest.mark.parametrize("file", ["manifest.json", "manifest.sig", "bulk.npy"])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_files_open_to_others_are_refused(mode, file, folder):
    (folder / file).chmod(mode)
    with pytest.raises(ModelFileError, match="others can read"):
        load(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_refused(folder):
    os.chown(folder / "bulk.npy", 12345, 12345)
    with pytest.raises(ModelFileError, match="another user"):
        load(folder)


# ----- signature and hashes --------------------------------------------------


def test_unsigned_models_are_refused(folder):
    (folder / "manifest.sig").unlink()
    with pytest.raises(ModelFileError, match="not signed"):
        load(folder)


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"{}",
        b"[]",
        b'{"algorithm": "none", "signature": ""}',
        b"\xff",
        b"[" * 4000,
    ],
)
def test_signatures_that_are_none_are_refused(signature, folder):
    write(folder / "manifest.sig", signature)
    with pytest.raises(ModelFileError, match="not a signature"):
        load(folder)


def test_another_key_is_refused(folder):
    with pytest.raises(ModelFileError, match="another key"):
        load_model(folder, signing_key=new_key())
    sign(folder, new_key())
    with pytest.raises(ModelFileError, match="another key"):
        load(folder)


def test_every_changed_byte_of_the_manifest_is_noticed(folder):
    whole = (folder / "manifest.json").read_bytes()
    for place in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[place] ^= 1
        write(folder / "manifest.json", bytes(changed))
        with pytest.raises(ModelFileError, match="not a signature"):
            load(folder)


@pytest.mark.parametrize(
    "array", ["shards", "labels", "weights", "intercepts", "missing", "bulk"]
)
def test_every_changed_array_is_noticed(array, folder):
    content = bytearray((folder / f"{array}.npy").read_bytes())
    content[-1] ^= 1
    write(folder / f"{array}.npy", bytes(content))
    with pytest.raises(ModelFileError, match="does not match its hash"):
        load(folder)


def test_arrays_cannot_be_swapped_between_models(folder, tmp_path):
    table = fitted("voting-linear")[2]
    other = PrivateVotingClassifier(logistic(), 0.5, TWO.classes, n_shards=12)
    from reticent.schemas import Encoder

    other.fit(Encoder(TWO).transform(table), TWO.classes[table.label])
    save_model(tmp_path / "o", other, TWO, signing_key=KEY)
    write(folder / "weights.npy", (tmp_path / "o" / "weights.npy").read_bytes())
    with pytest.raises(ModelFileError, match="does not match its hash"):
        load(folder)


def test_missing_files_are_named(folder):
    (folder / "bulk.npy").unlink()
    with pytest.raises(ModelFileError, match=r"bulk\.npy"):
        load(folder)
    with pytest.raises(ModelFileError, match="not a directory"):
        load(folder / "nothing")


# ----- the manifest's own sense ----------------------------------------------

CHANGES = {
    "unknown format": lambda m: m.update(format="pickle"),
    "newer version": lambda m: m.update(version=3),
    "unknown kind": lambda m: m.update(kind="os.system"),
    "version a text": lambda m: m.update(version="2"),
    "older version": lambda m: m.update(version=0),
    "version lied about": lambda m: m.update(version=1),
    "extra key": lambda m: m.update(run="rm"),
    "lost key": lambda m: m.pop("software"),
    "kind not text": lambda m: m.update(kind=["voting"]),
    "dataset a list": lambda m: m.update(dataset=[]),
    "dataset name": lambda m: m["dataset"].update(name="../x"),
    "dataset key": lambda m: m["dataset"].update(extra="x"),
    "encrypted a word": lambda m: m.update(encrypted="no"),
    "schema broken": lambda m: m["schema"].update(columns=[]),
    "encoder broken": lambda m: m["encoder"].update(style="eval"),
    "encoder surplus": lambda m: m["encoder"].update(func="eval"),
    "parameters a list": lambda m: m.update(parameters=[]),
    "parameter lost": lambda m: m["parameters"].pop("rule"),
    "rule unknown": lambda m: m["parameters"].update(rule="none"),
    "rule unhashable": lambda m: m["parameters"].update(rule=[]),
    "epsilon zero": lambda m: m["parameters"].update(parameter=0),
    "epsilon negative": lambda m: m["parameters"].update(parameter=-1.0),
    "epsilon text": lambda m: m["parameters"].update(parameter="1"),
    "epsilon true": lambda m: m["parameters"].update(parameter=True),
    "shards zero": lambda m: m["parameters"].update(n_shards=0),
    "shards huge": lambda m: m["parameters"].update(n_shards=2**62),
    "shards fewer": lambda m: m["parameters"].update(n_shards=3),
    "units float": lambda m: m["parameters"].update(n_units=480.0),
    "flag a number": lambda m: m["parameters"].update(labels_from_data=1),
    "labels neither": lambda m: m["parameters"].update(labels="names"),
    "identity short": lambda m: m["parameters"].update(identity="0"),
    "identity a number": lambda m: m["parameters"].update(identity=7),
    "labels repeated": lambda m: m["parameters"].update(classes=["no", "no"]),
    "labels foreign": lambda m: m["parameters"].update(classes=["no", "maybe"]),
    "units zero": lambda m: m["parameters"].update(n_units=0),
    "shards many": lambda m: m["parameters"].update(n_shards=10**8),
    "family unhashable": lambda m: m["parameters"].update(family=[]),
    "family unknown": lambda m: m["parameters"].update(family="forest"),
    "scalars lost": lambda m: m["parameters"].update(scalars={}),
    "scalars text": lambda m: m["parameters"]["scalars"].update(steps="0"),
    "link unknown": lambda m: m["parameters"]["scalars"].update(link="probit"),
    "array lost": lambda m: m["arrays"].pop("bulk"),
    "array surplus": lambda m: m["arrays"].update(more=m["arrays"]["bulk"]),
    "array a number": lambda m: m["arrays"].update(bulk=3),
    "object dtype": lambda m: m["arrays"]["bulk"].update(dtype="|O"),
    "other dtype": lambda m: m["arrays"]["bulk"].update(dtype="<i8"),
    "big-endian": lambda m: m["arrays"]["bulk"].update(dtype=">f8"),
    "negative shape": lambda m: m["arrays"]["bulk"].update(shape=[-1]),
    "deep shape": lambda m: m["arrays"]["bulk"].update(shape=[1] * 40),
    "text shape": lambda m: m["arrays"]["bulk"].update(shape=["12"]),
    "hash of another form": lambda m: m["arrays"]["bulk"].update(sha256="x" * 64),
    "no hash": lambda m: m["arrays"]["bulk"].pop("sha256"),
    "certificate emptied": lambda m: m.update(certificate={}),
    "certificate a list": lambda m: m.update(certificate=[]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_manifests_that_make_no_sense_are_refused(name, folder):
    forge(folder, CHANGES[name])
    with pytest.raises(ReticentError) as refusal:
        load(folder)
    assert isinstance(refusal.value, ModelFileError | CertificateError)


def smaller_loss(manifest):
    """Claim a smaller epsilon at every step, consistently."""
    text = json.dumps(manifest["certificate"]).replace(
        '"epsilon": 0.5', '"epsilon": 0.1'
    )
    manifest["certificate"] = json.loads(text)


def larger_noise_claimed(manifest):
    """Draw with less noise than certified."""
    manifest["parameters"]["parameter"] = 5.0


def other_relation(manifest):
    manifest["certificate"]["relation"]["n"] = 7


@pytest.mark.parametrize("change", [smaller_loss, larger_noise_claimed, other_relation])
def test_a_promise_other_than_the_one_kept_is_refused(change, folder):
    forge(folder, change)
    with pytest.raises(CertificateError):
        load(folder)


def test_seeded_noise_is_refused_even_if_somebody_signed_it(folder):
    seeded = PrivateVotingClassifier(
        logistic(), 0.5, TWO.classes, n_shards=12, random_state=1
    )
    _, encoder, table = fitted("voting-linear")
    seeded.fit(encoder.transform(table), TWO.classes[table.label])
    forge(folder, lambda m: m.update(certificate=seeded.certificate_.as_dict()))
    with pytest.raises(NotDeployableError, match="SEEDED_NOISE"):
        load(folder)


# ----- arrays that lead astray -----------------------------------------------


def broken(folder, name, change):
    array = np.load(folder / f"{name}.npy").copy()
    array = change(array)
    content = npy(array)

    def restated(manifest):
        entry = manifest["arrays"][name]
        entry.update(shape=list(array.shape), dtype=array.dtype.str)

    forge(folder, restated, {f"{name}.npy": content})


def put(value):
    def change(array):
        array.flat[0] = value
        return array

    return change


LINEAR = {
    "label beyond": ("labels", put(9)),
    "label below": ("labels", put(-2)),
    "shard beyond": ("shards", put(99)),
    "shard twice": ("shards", lambda a: np.append(a[1], a[1:])),
    "weights not finite": ("weights", put(np.nan)),
    "weights narrow": ("weights", lambda a: a[:, :, 1:]),
    "weights fewer": ("weights", lambda a: a[1:]),
    "intercept infinite": ("intercepts", put(np.inf)),
    "bulk infinite": ("bulk", put(np.inf)),
    "missing wide": ("missing", lambda a: np.zeros((*a.shape[:2], 3))),
    "no scores": ("weights", lambda a: a[:, :0]),
    "flat": ("weights", lambda a: a.ravel()),
    "integers": ("bulk", lambda a: a.astype(np.int64)),
}
TREES = {
    "child beyond": ("children", put(10**6)),
    "child behind": ("children", lambda a: np.zeros_like(a)),
    "cycle": ("children", lambda a: np.stack([a[:, 0] * 0 + 3, a[:, 1]], axis=1)),
    "feature beyond": ("feature", lambda a: a * 0 + 99),
    "feature below": ("feature", lambda a: a * 0 - 1),
    "root beyond": ("roots", put(10**6)),
    "root below": ("roots", put(-1)),
    "no rounds": ("roots", lambda a: a[:, :0]),
    "values not finite": ("values", put(np.inf)),
    "values narrow": ("values", lambda a: a[:, :1]),
    "nodes fewer": ("threshold", lambda a: a[1:]),
    "branch table": ("branch", put(0)),
    "baseline not finite": ("baseline", put(np.nan)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_arrays_that_lead_astray_are_refused(name, folder):
    broken(folder, *LINEAR[name])
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize("name", TREES)
def test_tree_arrays_that_lead_astray_are_refused(name, grove):
    broken(grove, *TREES[name])
    with pytest.raises(ModelFileError):
        load(grove)


RELEASED = {
    "coefficients not finite": ("coefficients", put(np.nan)),
    "coefficients narrow": ("coefficients", lambda a: a[:, 1:]),
    "two rows": ("coefficients", lambda a: np.repeat(a, 2, axis=0)),
    "intercept infinite": ("intercepts", put(np.inf)),
    "integers": ("intercepts", lambda a: a.astype(np.int64)),
}


@pytest.mark.parametrize("case", ["released-two", "released-number"])
@pytest.mark.parametrize("name", RELEASED)
def test_released_arrays_that_do_not_fit_are_refused(name, case, tmp_path):
    model, encoder, _ = fitted(case)
    folder = tmp_path / "m"
    save_model(folder, model, encoder.schema, encoder=encoder, signing_key=KEY)
    broken(folder, *RELEASED[name])
    with pytest.raises(ModelFileError):
        load(folder)


TABLES = {
    "values not finite": ("values", put(np.nan)),
    "values narrow": ("values", lambda a: a[:, 1:]),
    "one score": ("values", lambda a: np.repeat(a, 2, axis=0)),
    "values of another type": ("values", lambda a: a.astype(np.float32)),
    "a column that is not there": ("asked", lambda a: a + 1),
    "a column before the first": ("asked", lambda a: a - 1),
    "nothing asked": ("n_asked", lambda a: np.where(np.arange(len(a)) == 0, 0, a)),
    "asked more": ("n_asked", lambda a: a + 1),
    "unknown parts": ("tables", put(60_000)),
    "a table cut short": ("tables", lambda a: a[:-1]),
    "no parts": ("n_parts", lambda a: a * 0),
    "negative parts": ("n_parts", lambda a: -a),
}


@pytest.mark.parametrize("case", ["released-table-three", "released-table-number"])
@pytest.mark.parametrize("name", TABLES)
def test_released_tables_that_do_not_fit_are_refused(name, case, tmp_path):
    model, encoder, _ = fitted(case)
    folder = tmp_path / "m"
    save_model(folder, model, encoder.schema, encoder=encoder, signing_key=KEY)
    broken(folder, *TABLES[name])
    with pytest.raises(ModelFileError):
        load(folder)


def test_released_models_need_a_certificate_of_the_model(tmp_path):
    model, encoder, _ = fitted("released-two")
    answer = fitted("voting-linear")[0].certificate_.as_dict()
    folder = tmp_path / "m"
    save_model(folder, model, TWO, encoder=encoder, signing_key=KEY)
    forge(folder, lambda m: m.update(certificate=answer))
    with pytest.raises(ModelFileError, match="certificate of the model"):
        load(folder)
    forge(folder, lambda m: m["arrays"].pop("intercepts"))
    with pytest.raises(ModelFileError):
        load(folder)


@pytest.mark.parametrize("case", ["released-two", "released-number"])
def test_released_models_have_as_many_scores_as_they_need(case, tmp_path):
    model, encoder, _ = fitted(case)
    folder = tmp_path / "m"
    save_model(folder, model, encoder.schema, encoder=encoder, signing_key=KEY)
    doubled = np.repeat(np.load(folder / "intercepts.npy"), 2)
    broken(folder, "intercepts", lambda a: doubled)
    broken(folder, "coefficients", lambda a: np.repeat(a, 2, axis=0))
    with pytest.raises(ModelFileError, match="n_scores=1 are needed"):
        load(folder)


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_other_npy_versions_are_refused(version, folder):
    array = np.load(folder / "bulk.npy")
    forge(folder, files={"bulk.npy": npy(array, version=version)})
    with pytest.raises(ModelFileError, match=r"version 1\.0|another type"):
        load(folder)


def test_fortran_order_is_refused(folder):
    array = np.asfortranarray(np.load(folder / "labels.npy"))
    forge(folder, files={"labels.npy": npy(array)})
    with pytest.raises(ModelFileError, match="does not have the type"):
        load(folder)


# ----- keys ------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["", "hmac-sha256", "hmac-sha256:", "hmac-sha256:%%%", "md5:AAAA", "hmac-sha256:ä"],
)
def test_keys_of_another_form_are_refused_without_quoting_them(key, folder):
    with pytest.raises(InvalidParameterError) as refusal:
        load_model(folder, signing_key=key)
    assert "KIND:BASE64" in str(refusal.value)


@pytest.mark.parametrize("key", [b"short", "hmac-sha256:AAAA", "ed25519-public:AAAA"])
def test_short_keys_are_refused(key, folder):
    with pytest.raises(InvalidParameterError, match="32"):
        load_model(folder, signing_key=key)


def test_keys_are_for_one_purpose(folder):
    secret = new_key("aes-256-gcm")
    with pytest.raises(InvalidParameterError, match="does not sign"):
        load_model(folder, signing_key=secret)
    model, *_ = fitted("voting-linear")
    with pytest.raises(InvalidParameterError, match="aes-256-gcm key is needed"):
        save_model(folder.parent / "n", model, TWO, signing_key=KEY, encryption_key=KEY)
    with pytest.raises(InvalidParameterError, match="needs 32"):
        save_model(
            folder.parent / "n", model, TWO, signing_key=KEY, encryption_key=b"short"
        )


def test_key_files_are_private_and_whole(tmp_path):
    from reticent.signing import key_from, read_key_file, write_key_file

    path = tmp_path / "key"
    write_key_file(path, KEY)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key_file(path) == key_from(None, path, "x") == KEY
    assert key_from(KEY, None, "x") == KEY
    assert key_from(None, None, "x") is None
    with pytest.raises(InvalidParameterError, match="given twice"):
        key_from(KEY, path, "the key")
    with pytest.raises(ModelFileError, match="cannot be made"):
        write_key_file(path, KEY)
    path.chmod(0o644)
    with pytest.raises(ModelFileError, match="600"):
        read_key_file(path)
    with pytest.raises(ModelFileError, match="600"):
        read_key_file(tmp_path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_key_file(tmp_path / "nothing")


@pytest.mark.parametrize("kind", ["rsa", "ed25519-public"])
def test_only_keys_that_can_be_made_are_made(kind):
    with pytest.raises(InvalidParameterError, match="must be"):
        new_key(kind)


def test_public_keys_belong_to_private_ones():
    from reticent.signing import public_key

    with pytest.raises(InvalidParameterError, match="ed25519-private"):
        public_key(KEY)


def test_two_kinds_cannot_share_a_name():
    from reticent.errors import InternalError
    from reticent.storage import register_kind
    from reticent.storage.sharded import VotingKind

    with pytest.raises(InternalError, match="two kinds"):
        register_kind(VotingKind())


@pytest.mark.parametrize("delta", [-0.5, 1.0, "0", None])
def test_deltas_that_are_none_are_refused(delta, tmp_path):
    model, encoder, _ = fitted("averaging-two")
    save_model(tmp_path / "m", model, TWO, encoder=encoder, signing_key=KEY)
    forge(tmp_path / "m", lambda m: m["parameters"].update(delta=delta))
    with pytest.raises(ModelFileError, match="delta"):
        load(tmp_path / "m")


def test_geometric_votes_on_three_labels_are_refused(grove):
    forge(grove, lambda m: m["parameters"].update(rule="geometric"))
    with pytest.raises(ModelFileError, match="two labels"):
        load(grove)


def test_a_model_of_a_schema_without_classes_is_refused(folder):
    forge(folder, lambda m: m["schema"].update(label=None))
    with pytest.raises(ModelFileError, match="cannot be put together"):
        load(folder)


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    model, encoder, _ = fitted("voting-linear")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        save_model(tmp_path / "m", model, TWO, encoder=encoder, signing_key=KEY)
    assert not list(tmp_path.iterdir())


def test_arrays_of_objects_are_not_written():
    from reticent.storage.arrays import array_bytes

    with pytest.raises(ModelFileError, match="dtype"):
        array_bytes("x", np.array(["text"]))
