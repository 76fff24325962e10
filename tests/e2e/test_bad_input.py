"""What is wrong with an input, once each."""

from __future__ import annotations

import json
import os

from tests.e2e.refusals import Case
from tests.kit.commands import environment, photo, write_photos
from tests.kit.servers.strict_gcs import StrictGCS


def test_an_empty_input_folder(case: Case) -> None:
    empty = case.root / "empty"
    empty.mkdir()

    case.fails(
        2,
        "no images found in the input. Expected ROOT/class/image.jpg with suffixes such as .jpg, .png, .webp, .gif, .bmp. Check "
        "--input.",
        *("--input", empty),
    )


def test_an_input_that_is_not_there(case: Case) -> None:
    case.fails(
        2,
        f"input folder {case.root}/nowhere does not exist. Check the spelling; relative paths start at the current folder.",
        *("--input", case.root / "nowhere"),
    )


def test_an_input_that_is_a_file(case: Case) -> None:
    case.fails(
        2,
        f"input folder {case.root}/cat/000.jpg is not a folder. Name the folder that holds one folder per class.",
        *("--input", case.root / "cat" / "000.jpg"),
    )


def test_a_folder_that_may_not_be_read(case: Case) -> None:
    (case.root / "dog").chmod(0o300)
    try:
        case.fails(
            2,
            f"input folder {case.root}/dog may not be listed. Make it readable (chmod -R u+rX {case.root}) or move it out of the "
            "input.",
        )
    finally:
        (case.root / "dog").chmod(0o755)


def test_an_image_that_may_not_be_read(case: Case) -> None:
    path = case.root / "dog" / "003.jpg"
    path.chmod(0)

    case.fails(
        2,
        f"no permission to read {path}. Make it readable (chmod u+r FILE; for all: chmod -R u+rX {case.root}) or move it out of "
        "the input.",
        keeps_parts=True,
    )


def test_only_files_that_are_not_images(case: Case) -> None:
    notes = case.root.parent / "notes"
    (notes / "cat").mkdir(parents=True)
    for name in ("a.txt", "b.csv", ".hidden.jpg"):
        (notes / "cat" / name).touch()
    case.root = notes

    case.fails(
        2,
        "no images found in the input (skipped: 1 hidden, 2 suffix). Expected ROOT/class/image.jpg with suffixes such as .jpg, "
        ".png, .webp, .gif, .bmp. Check --input.",
    )


def test_images_at_the_root(case: Case) -> None:
    for name in ("b.jpg", "a.jpg"):
        (case.root / name).write_bytes(photo(0))

    case.fails(
        2,
        "2 images lie directly in the input root, without a class folder: a.jpg, b.jpg. Move each into the folder of its class "
        "(ROOT/cat/1.jpg), or give a narrower glob (--input 'ROOT/*/*.jpg').",
    )


def test_one_root_inside_another(case: Case) -> None:
    case.fails(
        2,
        f"--input {case.root}/cat lies inside --input {case.root}: its images would be listed twice with different classes. Give "
        "only one of them, or build two datasets.",
        *("--input", case.root, "--input", case.root / "cat"),
    )


def test_the_same_key_in_two_roots(case: Case) -> None:
    second = case.root.parent / "second"
    (second / "cat").mkdir(parents=True)
    (second / "cat" / "003.jpg").write_bytes(photo(9))

    case.fails(
        2,
        f"cat/003.jpg is in two inputs: {case.root} and {second}. A key is a record's name and must be unique: give one --input "
        "that holds both as folders, or rename, then rerun with --discard_incomplete.",
        *("--input", case.root, "--input", second),
        keeps_parts=True,
    )


def test_an_input_folder_whose_name_is_not_utf8(case: Case) -> None:
    case.root = case.root.rename(os.fsdecode(os.fsencode(case.root) + b"\xe9"))

    case.fails(2, f"--input {case.output.parent}/in\\xe9 is not UTF-8. Rename the folder.")


def test_an_accented_input_folder_where_python_takes_names_for_ascii(case: Case) -> None:
    case.root = case.root.rename(f"{case.root}-é")
    case.env = environment(LC_ALL="C", PYTHONUTF8="0")

    case.fails(
        2,
        f"--input {case.output.parent}/in-\\xe9: Python reads names here as ascii, which has no such characters. Set "
        "PYTHONUTF8=1, then run the command again.",
    )
    case.env = environment(LC_ALL="C", PYTHONUTF8="1")
    case.succeeds()


def test_a_class_folder_whose_name_is_not_utf8(case: Case) -> None:
    folder = os.fsencode(case.root) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/1.jpg", "wb") as file:
        file.write(photo(0))

    case.fails(
        2,
        "1 images lie in a class folder whose name is not UTF-8: caf\\xe9/1.jpg. Rename the folder: its name becomes a label.",
    )


def test_a_file_whose_name_is_not_utf8_is_a_reject(case: Case) -> None:
    with open(os.fsencode(case.root) + b"/cat/caf\xe9.jpg", "wb") as file:
        file.write(photo(0))

    summary = case.succeeds()
    assert (summary["written"], summary["rejected"]) == (12, {"NAME": 1})
    assert json.loads((case.output / "rejects-00000-of-00001.jsonl").read_text()) == {
        "key": "cat/caf\\xe9.jpg",
        "reason": "NAME",
        "detail": "the file name is not UTF-8; rename it",
    }


def test_an_image_from_after_the_times_that_64_bits_hold(case: Case) -> None:
    os.utime(case.root / "dog" / "003.jpg", ns=(0, 10_413_792_000 * 10**9))  # the year 2300

    assert case.succeeds()["written"] == 12


def test_a_class_without_one_good_image(case: Case) -> None:
    (case.root / "cow").mkdir()
    for name in ("1.jpg", "2.jpg"):
        (case.root / "cow" / name).write_bytes(b"")

    case.fails(
        3,
        "no image of 1 class(es) can be used: cow. Rejected: EMPTY 2. Nothing was published. Mend those images, or take the "
        "folder(s) out of --input, then rerun with --discard_incomplete.\nRejects:\n"
        f"  {case.output}/_parts/FINGERPRINT/rejects/rejects-00000-of-00001.jsonl",
        keeps_parts=True,
    )


def test_folders_that_look_like_splits(case: Case) -> None:
    (case.root / "cat").rename(case.root / "train")
    (case.root / "dog").rename(case.root / "test")

    case.fails(
        2,
        "the top folders are test, train: they look like splits, not classes. Give --splits folders to take the split from the "
        "first folder and the class from the second.",
    )


def test_folders_that_look_alike(case: Case) -> None:
    write_photos(case.root, Cat=1)

    case.fails(
        2,
        "class folders 'Cat' and 'cat' differ only in case, spaces or Unicode form. They would be two classes. Rename one, or "
        "move its images into the other.",
    )


def test_class_folders_that_hold_other_files_only(case: Case) -> None:
    for name in ("cow/notes.txt", "docs/README", "docs/old/a.csv", ".git/HEAD", "__MACOSX/._1.jpg", "pig/.gitkeep"):
        (case.root / name).parent.mkdir(parents=True, exist_ok=True)
        (case.root / name).touch()

    case.fails(
        2,
        "2 folder(s) hold files, but not one image: cow, docs. Each would be a class or a split without images. Move them out of "
        "the input, hide them with a dot before the name, or give a glob (--input 'ROOT/*/*.jpg').",
    )


def test_a_link_in_the_place_of_a_class_folder(case: Case) -> None:
    (case.root / "cow").symlink_to(case.root / "cat")
    (case.root / "pig").symlink_to("/not/mounted")

    case.fails(
        2,
        "2 symbolic link(s) stand where a class folder should be: cow, pig. Links to folders are not followed. Put the real "
        "folders there, give what they lead to as --input, hide the links with a dot before the name, or give a glob (--input "
        "'ROOT/*/*.jpg').",
    )


def test_braces_in_a_glob(case: Case) -> None:
    case.fails(
        2,
        f"--input {case.root}/*/*.{{jpg,png}}: braces are not supported in globs. Give one --input for each: "
        f"--input '{case.root}/*/*.jpg' --input '{case.root}/*/*.png'. (A brace that is part of a name is written [{{].)",
        *("--input", f"{case.root}/*/*.{{jpg,png}}"),
    )


def test_brackets_of_a_buckets_folder_that_a_glob_takes_for_a_set(case: Case) -> None:
    with StrictGCS() as server:
        server.objects.put("photos", "pets[1]/cat/1.jpg", photo(0))
        case.env = environment(STORAGE_EMULATOR_HOST=server.url)
        case.fails(
            2,
            "--input gs://photos/pets[1]/*/*.jpg: in a glob, [ ] is a set of characters, so that pets[1] does not match the "
            "folder of that very name. Write [ as [[]: --input 'gs://photos/pets[[]1]/*/*.jpg'",
            *("--input", "gs://photos/pets[1]/*/*.jpg"),
        )


def test_credentials_in_a_file_that_is_not_there(case: Case) -> None:
    path = case.root.parent / "key.json"
    with StrictGCS() as metadata:
        address = metadata.url.removeprefix("http://")
        names = dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP", "METADATA_HOST", "METADATA_IP"), address)
        case.env = environment(STORAGE_EMULATOR_HOST="", GOOGLE_APPLICATION_CREDENTIALS=str(path), **names)
        case.fails(
            2,
            f"GOOGLE_APPLICATION_CREDENTIALS names {path}, which does not exist. Name a service account's key file, or unset it "
            "and log in with: gcloud auth application-default login",
            *("--input", "gs://photos"),
        )
        assert metadata.connections == 0
