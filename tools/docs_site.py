"""Builds the documentation's site into build/docs/site, with MkDocs: README, ARCHITECTURE, CONTRIBUTING and the pages below docs/.

The pages are copied, so that they link to each other as they do in the tree. Links to other files, such as sources, become plain text: the site does
not know where the tree is published.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "docs"
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
PICTURES = (".svg", ".png")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
# Titles of the menu. A page that is not named here is an error: the menu has all of them.
MENU = {
    "Start": {"Pathways": "README.md", "All pages": "docs/README.md"},
    "Using it": {"Programs": "docs/programs.md", "Slices": "docs/slices.md", "Pipelines": "docs/pipelines.md", "Checkpoints": "docs/checkpoints.md", "Elastic training": "docs/elastic.md", "Python on the hosts": "docs/host-python.md",
                 "Arrays for other programs": "docs/published.md", "Memory": "docs/memory.md",
                 "Compatibility": "docs/compatibility.md", "MaxText": "docs/maxtext.md"},
    "Running it": {"Deploy": "docs/deploy.md", "GPUs": "docs/gpu.md", "Security": "docs/security.md", "Flags": "docs/flags.md", "Environment": "docs/environment.md",
                   "Operators": "docs/operators.md", "Faults": "docs/faults.md", "Status": "docs/status.md",
                   "Traces": "docs/trace.md", "Simulation": "docs/simulator.md"},
    "How it works": {"Architecture": "ARCHITECTURE.md", "Measurements": "docs/paper.md", "The IR": "docs/ir.md", "Contributing": "CONTRIBUTING.md",
                     "Two doors": "docs/design/two-doors.md", "Programs on the engine": "docs/design/programs-on-the-engine.md",
                     "Controllers that return": "docs/design/controllers-that-return.md"},
}
CONFIG = """site_name: Pathways
docs_dir: {source}
site_dir: {site}
use_directory_urls: false
theme:
  name: material
  font: false
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
plugins: [search]
markdown_extensions: [tables, fenced_code, {{toc: {{permalink: true}}}}]
validation: {{links: {{anchors: warn, absolute_links: warn}}, nav: {{omitted_files: warn}}}}
nav:
{nav}
"""


def pages():
    """Returns the paths of all pages, from the root of the tree."""
    return [*TOP, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


def for_site(text, page, known):
    """Returns a page's text with links to files that are neither pages nor pictures of docs/ replaced by their words. page: its path; known: the paths of all pages."""
    def replace(match):
        words, link = match.groups()
        path = link.partition("#")[0]
        if "://" in link or not path:
            return match[0]
        target = (ROOT / page).parent.joinpath(path).resolve()
        is_picture = target.suffix in PICTURES and target.is_relative_to(ROOT / "docs")
        return match[0] if is_picture or str(target.relative_to(ROOT)) in known else words

    return LINK.sub(replace, text)


def nav():
    lines = []
    for section, entries in MENU.items():
        lines += [f"  - {section}:", *(f"      - {title}: {path}" for title, path in entries.items())]
    return "\n".join(lines)


def main():
    source, site = OUT / "source", OUT / "site"
    shutil.rmtree(OUT, ignore_errors=True)
    known = pages()
    for page in known:
        target = source / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(for_site((ROOT / page).read_text(), page, known))
    for picture in (ROOT / "docs").rglob("*"):
        if picture.suffix in PICTURES:
            (source / picture.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, source / picture.relative_to(ROOT))
    config = OUT / "mkdocs.yml"
    config.write_text(CONFIG.format(source=source, site=site, nav=nav()))
    result = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(config)], env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if result.returncode == 0:
        print(f"the documentation is in {site.relative_to(ROOT)}/index.html")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
