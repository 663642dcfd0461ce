"""Tests that links between the pages of the documentation have targets."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import docs_site  # noqa: E402

PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)
CODE = re.compile(r"^```.*?^```", re.M | re.S)


def anchor(heading):
    """Returns the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")


def links(page):
    return [link for link in LINK.findall(CODE.sub("", page.read_text())) if "://" not in link and not link.startswith("mailto:")]


def broken(page):
    """Returns the links of a page that have no target."""
    found = []
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in map(anchor, HEADING.findall(CODE.sub("", target.read_text())))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert not broken(page)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "there.md").write_text("# One `call`\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#one-call) [b](https://example.org/x) [c](gone.md) [d](there.md#two)\n```\n[e](code.md)\n```\n")
    assert broken(page) == ["gone.md", "there.md#two"]


def test_the_index_names_every_page():
    index = ROOT / "docs/README.md"
    named = {(index.parent / link).resolve() for link in links(index)}
    assert not [str(page.relative_to(ROOT)) for page in PAGES if page not in named and page != index]


def test_the_site_keeps_pictures_and_drops_links_to_sources():
    text = "![a picture](paper/figure5.png) [a page](ir.md) [a source](../pathways/base/ids.h) [outside](../web/logo.png)"
    assert docs_site.for_site(text, "docs/paper.md", {"docs/ir.md"}) == "![a picture](paper/figure5.png) [a page](ir.md) a source outside"
