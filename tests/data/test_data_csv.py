"""A CSV file of path and label."""

import pytest

from levelfield import data
from levelfield.errors import BadInput

ROWS = ["cat/0.png,tabby", "cat/1.png,tabby", "dog/0.png,10", "dog/1.png,10", "eel/0.png,2"]


def write(pets, *lines, name="list.csv", encoding="utf-8"):
    (pets / name).write_text("\n".join(lines) + "\n", encoding=encoding)
    return pets / name


@pytest.mark.parametrize("header", [[], ["path,label"], ["Path, Label"]])
def test_header_is_optional_and_paths_are_relative_to_the_file(pets, header):
    catalog = data.create(write(pets, *header, *ROWS))
    assert catalog.name == "list"
    assert catalog.class_names == ("2", "10", "tabby")
    assert catalog.labels.tolist() == [2, 2, 1, 1, 0]
    assert catalog.paths[0] == pets / "cat" / "0.png"
    assert any("cannot be a query: 2" in note for note in catalog.notes)


def test_columns_are_found_by_name_with_role_and_group(pets):
    rows = ["label,role,group,path", "a,query,x,cat/0.png", "a,gallery,x,cat/1.png", "b,,y,dog/0.png"]
    rows += ["c,Query,x,eel/0.png", "d,,,fox/0.png", "e,,,fox/1.png"]
    catalog = data.create(str(write(pets, *rows)))
    assert catalog.roles == ("query", "gallery", "", "query", "", "")
    assert catalog.groups.tolist() == [0, 1, 0, 2, 3]
    # class b has one image too, but it is not looked for
    assert catalog.notes == ("1 query has no image of its class in the gallery: a miss.",)


def test_split_column_is_kept_and_respected(pets):
    rows = ["path,label,split", "cat/0.png,a,test", "cat/1.png,a,TEST", "dog/0.png,b,train", "dog/1.png,b,train"]
    rows += ["eel/0.png,c,val", "eel/1.png,c,val", "fox/0.png,d,train", "fox/1.png,d,train"]
    catalog = data.create(write(pets, *rows))
    assert catalog.split == ("test",) * 2 + ("train",) * 2 + ("validation",) * 2 + ("train",) * 2
    [fold] = data.protocols.create("standard", catalog)
    assert [part.tolist() for part in (fold.train, fold.validation, fold.test)] == [[2, 3, 6, 7], [4, 5], [0, 1]]


def test_semicolons_tabs_quotes_absolute_paths_and_byte_order_mark(pets):
    (pets / "cat" / "0.png").rename(pets / "cat" / "a, b.png")
    quoted = write(pets, "path,label", '"cat/a, b.png","x, y"', f"{pets}/dog/0.png,z")
    assert data.create(quoted).class_names == ("x, y", "z")
    excel = write(pets, "path;label", "cat/1.png;é", "dog/1.png;z", name="excel.csv", encoding="utf-8-sig")
    assert data.create(excel).class_names == ("z", "é")
    tabs = write(pets, "cat/1.png\tx", "", "dog/1.png\tz", name="tabs.tsv")
    assert data.create(tabs).class_names == ("x", "z")


def test_missing_files_are_named_and_counted(pets):
    with pytest.raises(BadInput, match=r"(?s)7 of 9 files .* line 3: .*no0.png.*and 2 more.*relative to the CSV"):
        data.create(write(pets, *ROWS[1:3], *[f"no{i}.png,x" for i in range(7)]))


def test_repeated_line_is_noted_and_a_contradiction_refused(pets):
    catalog = data.create(write(pets, *ROWS, ROWS[0]))
    assert len(catalog) == 5
    assert "1 lines repeat an image and were ignored." in catalog.notes
    with pytest.raises(BadInput, match=r"line 6: .* has the label 'siam' here and 'tabby' in line 1"):
        data.create(write(pets, *ROWS, "cat/0.png,siam"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "is empty"),
        (["path,label"], "header but no images"),
        (["path,class", "cat/0.png,a"], "column 'label' is missing"),
        (["cat/0.png", "cat/1.png"], "line 1: expected a path and a label"),
        (["cat/0.png,a", "cat/1.png,"], "line 2: expected a path and a label"),
        (["cat/0.png,a", "cat/1.png,a"], "only one class"),
        (["path,label,role", "cat/0.png,a,qery"], "line 2: unknown role 'qery'"),
        (["path,label,split", "cat/0.png,a,tst"], "line 2: unknown split 'tst'"),
        (["path,label,split", "cat/0.png,a,train", "dog/0.png,b,"], "line 3: this image has no split"),
        (["path,label,split,role", "cat/0.png,a,train,query", "dog/0.png,b,test,"], "line 2: the role 'query'"),
        (["path,label,group", "dog/0.png,b,x", "cat/0.png,a,x", "cat/1.png,a,y"], "groups 'x' and 'y'"),
    ],
)
def test_unusable_files_are_refused_with_the_line(pets, lines, message):
    with pytest.raises(BadInput, match=message):
        data.create(write(pets, *lines))


def test_missing_or_unreadable_csv(pets):
    write(pets, *ROWS)
    with pytest.raises(BadInput, match=r"does not exist. Did you mean .*list.csv"):
        data.create(pets / "lst.csv")
    (pets / "binary.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(BadInput, match="UTF-8"):
        data.create(pets / "binary.csv")


@pytest.mark.parametrize(
    ("label", "message"),
    [("a" * 140_000, r"line 2: field larger than"), ("a\0b", r"line 2: the label .* contains a NUL")],
)
def test_labels_that_cannot_be_are_told_with_their_line(tmp_path, label, message):
    (tmp_path / "list.csv").write_text(f"path,label\n0.png,{label}\n1.png,b\n")
    with pytest.raises(BadInput, match=message):
        data.create(tmp_path / "list.csv")
