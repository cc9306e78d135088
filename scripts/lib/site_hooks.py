"""site_hooks.py - what makes the pages of docs/, written for a code host, a site of mkdocs

README, changelog, licence and such become pages, other files of the tree that pages link to come along as
they are, and site.css and site.js in this folder are added. Anchors are those of code hosts. Markdown that code
hosts read and mkdocs does not is rewritten: lists that are indented by less than four blanks, and code
blocks within lists. Cells of tables know their heading, for narrow screens. Anchors in the text become links to
themselves, so that readers can copy the address. Pages are light or dark, as the reader or the system wants.
"""

import os
import posixpath
import re
import unicodedata

from mkdocs.structure.files import File

# Pages from outside of docs/: path in the tree, name on the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "reporting.md",
    "contrib/ansible/README.md": "ansible.md",
    "contrib/monitoring/README.md": "monitoring.md",
    "contrib/patroni/README.md": "patroni.md",
}

# Runs before a page is drawn: light or dark, as the reader has chosen (site.js), or else as the system is.
SCHEME = """<script>
let scheme = null;
try { scheme = localStorage.getItem('scheme'); } catch { }
document.documentElement.dataset.scheme = scheme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
</script>
"""

# Where the site has files of the tree that are no pages.
FILES = "files/"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def slug(text, separator):
    """The anchor that code hosts make of a heading."""
    text = unicodedata.normalize("NFC", text).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", separator)


def on_config(config):
    config.mdx_configs.setdefault("toc", {}).update(slugify=slug)
    return config


def linked_files(root, folder, text):
    """Paths in the tree of files that a page's links lead to; folder: that of the page."""
    for target in LINK.findall(text):
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        if not path.startswith("docs/") and path not in PAGES and os.path.isfile(os.path.join(root, path)):
            yield path


def on_files(files, config):
    root = posixpath.dirname(config.config_file_path)
    linked = set()
    for page in list(files.documentation_pages()):
        linked.update(linked_files(root, "docs", page.content_string))
    for name in ("site.css", "site.js"):
        with open(posixpath.join(root, "scripts/lib", name), encoding="utf-8") as file:
            files.append(File.generated(config, name, content=file.read()))
    for path, name in PAGES.items():
        with open(posixpath.join(root, path), encoding="utf-8") as file:
            text = file.read()
        if path == "LICENSE":
            text = "# Licence\n\n" + text
        files.append(File.generated(config, name, content=text))
        linked.update(linked_files(root, posixpath.dirname(path), text))
    for path in sorted(linked):
        with open(posixpath.join(root, path), "rb") as file:
            files.append(File.generated(config, FILES + path, content=file.read()))
    return files


def link(target, folder):
    """A link as the site has it; folder: that of the page in the tree."""
    path, hash_sign, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not path:
        return target
    path = posixpath.normpath(posixpath.join(folder, path))
    if path in PAGES:
        path = PAGES[path]
    elif path.startswith("docs/"):
        path = path[len("docs/"):]
    else:
        path = FILES + path
    return path + hash_sign + anchor


def label_cells(table):
    """A table whose cells have their column's heading as data-label: site.css shows it where columns do not fit."""
    head, _, body = table.partition("</thead>")
    labels = [re.sub(r"<[^>]+>|\"", "", label) for label in re.findall(r"<th\b[^>]*>(.*?)</th>", head, re.DOTALL)]
    column = -1

    def label(match):
        nonlocal column
        column = 0 if match.group(0) == "<tr>" else column + 1
        if match.group(0) == "<tr>" or not labels[column - 1]:
            return match.group(0)
        return f'<td data-label="{labels[column - 1]}"'

    return head + "</thead>" + re.sub(r"<tr>|<td\b", label, body)


def on_page_content(html, page, config, files):
    html = re.sub(r'<a id="([\w-]+)"></a>', r'<a id="\1" class="here" href="#\1" title="Link to this limit">¶</a> ', html)
    return re.sub(r"<table>.*?</table>", lambda match: label_cells(match.group(0)), html, flags=re.DOTALL)


def with_scheme(output):
    return output.replace("</head>", SCHEME + "</head>", 1)


def on_post_page(output, page, config):
    return with_scheme(output)


def on_post_template(output, template_name, config):
    return with_scheme(output) if template_name.endswith(".html") else output


def on_page_markdown(markdown, page, config, files):
    sources = {name: path for path, name in PAGES.items()}
    folder = posixpath.dirname(sources.get(page.file.src_uri, "docs/" + page.file.src_uri))
    lines = []
    fence = None        # indentation of the code block that the line is in
    in_list = False
    loose = False       # the list's present item has several paragraphs
    for line in markdown.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        is_fence = line.lstrip().startswith("```")
        if fence is not None:
            if is_fence:
                lines.append("" if fence else line)
                fence = None
            else:
                # within a list: an indented code block
                lines.append(line if not fence else (" " * 8 + line[fence:]).rstrip())
            continue
        if is_fence:
            fence = indent
            lines.append("" if fence else line)
            continue
        line = LINK.sub(lambda m: "](" + link(m.group(1), folder) + ")", line)
        item = re.match(r" *([-*]|\d+\.) ", line)
        if item:
            if loose and lines[-1]:
                lines.append("")
            lines.append(" " * (4 if indent >= 2 else 0) + line.lstrip())
            in_list = True
            loose = False
        elif line and indent == 0:
            in_list = loose = False
            lines.append(line)
        else:
            loose = loose or (in_list and not line)
            lines.append(" " * 4 + line.lstrip() if in_list and line else line)
    return "\n".join(lines)
