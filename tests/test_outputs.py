"""Whole files, swapped folders, one run a folder: nothing is lost and nothing half is left."""

import multiprocessing
import os
import stat

import pytest

from retrieval_quality import outputs
from retrieval_quality.errors import DataError, UsageError


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "rows.json"
    outputs.write_text(path, "old")

    def stop_halfway():
        with outputs.replacing(path) as file:
            file.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stop_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["rows.json"]


def test_a_link_is_written_through_and_rights_are_kept(tmp_path):
    real = tmp_path / "real.csv"
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    outputs.write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_dangling_link_is_written_through(tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "later" / "real.csv")
    outputs.write_text(link, "new")
    assert (tmp_path / "later" / "real.csv").read_text() == "new"


@pytest.mark.parametrize("name", ["", "file/below"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        outputs.write_text(tmp_path / name, "x")


def hold(folder, ready, leave):
    with outputs.sole_run(folder, "rank"):
        ready.set()
        leave.wait(30)


def test_a_second_run_is_told_and_a_later_one_is_not(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path / "d", ready, leave))
    other.start()
    assert ready.wait(60)
    with (
        pytest.raises(UsageError, match=r"is in use: rank \(process \d+\)"),
        outputs.sole_run(tmp_path / "d"),
    ):
        pass
    leave.set()
    other.join(30)
    with outputs.sole_run(tmp_path / "d"), outputs.sole_run(tmp_path / "d"):
        pass  # a stage inside a run of stages


def test_what_others_put_there_is_refused(tmp_path):
    (tmp_path / "html").mkdir()
    outputs.check_ours(tmp_path, ("figures",))
    with pytest.raises(UsageError, match="was not made by this program"):
        outputs.check_ours(tmp_path, ("html",))
    outputs.mark_ours(tmp_path, ("html",))
    outputs.mark_ours(tmp_path, ("reports",))
    outputs.check_ours(tmp_path, ("html", "reports"))


def test_a_swap_leaves_the_new_or_the_old(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page").write_text(name)
    outputs.swap(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "page").read_text() == "new"
    with pytest.raises(DataError):
        outputs.swap(tmp_path / "missing", tmp_path / "old")
    assert (tmp_path / "old" / "page").read_text() == "new"
    assert os.listdir(tmp_path) == ["old"]
