"""The page of the catalog: the keys of an entry, and the entries that are shipped.

Made from the JSON Schema of an entry and from the package's own files, so that both say what is read.
"""

from typing import Final

from hostler.adapters.catalog.reading import shipped
from hostler.adapters.catalog.schema import json_schema
from hostler.domain.catalog import Entry, start_affordance
from hostler.domain.catalog_check import mib
from tools.pages.config import mapping, resolved, section
from tools.pages.text import table

INTRODUCTION: Final = """# The catalog

What an entry is for, and what its class does: [the catalog explained](../explanation/catalog.md). Entries
of your own lie in the directory that `catalog:` names in the config, one file each, `ID.yaml`; the JSON
Schema is `hostler catalog schema`. A key that is not listed here is an error; none of them describes a box.

## Entries that are shipped

"""

KEYS: Final = """
`?` is not known. A variant is `unproven` until its identity was checked and one run judged its answers.

# Keys of an entry

`<name>` is a name that you give, `[]` an item of a list. A size is written `512 MiB`, `43 GiB` or `157 GB`;
as exactly as it is known where a download is to be proven by it: `639446688 B`.
"""


def row(entry: Entry) -> tuple[str, ...]:
    """One shipped entry."""
    known = [quant.min_ram for quant in entry.quants.values() if quant.min_ram is not None]
    least = mib(min(known)) if known else "?"
    shapes = ", ".join(f"{it.id}{'' if it.proven else ' (unproven)'}" for it in entry.variants.values())
    instead = start_affordance(entry.serving_class).text
    return (
        f"`{entry.id}`",
        f"{entry.serving_class}{f': {instead}' if instead else ''}",
        least,
        shapes,
        entry.source.license or "?",
    )


def render() -> str:
    """The page as Markdown."""
    schema = json_schema()
    definitions, required = mapping(schema.get("$defs")), schema.get("required")
    entries = table(
        ("entry", "class", "min_ram", "variants", "licence"), [row(entry) for entry in shipped().entries]
    )
    keys = "".join(
        section(
            name,
            resolved(mapping(part), definitions),
            definitions,
            required=isinstance(required, list) and name in required,
        )
        for name, part in mapping(schema.get("properties")).items()
    )
    return INTRODUCTION + entries + KEYS + keys
