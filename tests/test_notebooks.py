"""The notebooks of the documentation run from top to bottom, without a warning."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
import nbformat  # noqa: E402 (comes with nbclient)

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(notebook, folder):
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    return notebook


@pytest.mark.filterwarnings("ignore")  # of the client's own event loop
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    notebook = run(nbformat.read(path, as_version=4), tmp_path)
    outputs = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    assert any("text/html" in output.get("data", {}) for output in outputs)
    told = "".join(o.text for o in outputs if o.get("name") == "stderr")
    assert "Warning" not in told, told


def test_there_are_two_and_they_are_shown():
    page = (FOLDER.parent / "howto" / "notebooks.md").read_text("utf-8")
    assert len(NOTEBOOKS) >= 2
    for path in NOTEBOOKS:
        assert f"notebooks/{path.name}" in page


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_that_fails_is_noticed(tmp_path):
    broken = nbformat.v4.new_notebook()
    broken.cells = [nbformat.v4.new_code_cell("1 / 0")]
    with pytest.raises(nbclient.exceptions.CellExecutionError):
        run(broken, tmp_path)
