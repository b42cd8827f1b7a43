"""Hosts that are each node's own machine, in the spellings that one resolver or another takes."""

from urllib.parse import quote

from hypothesis import strategies as st

LOOPBACK = ("localhost", "127.0.0.1", "127.9", "[::1]", "[::ffff:127.0.0.1]", "0", "[::]")
"""Spellings of each node's own machine."""
FULL_WIDTH = {it: chr(ord(it) + 0xFEE0) for it in "0123456789abcdefghijklmnopqrstuvwxyz"}
DOTS = (".", "\u3002", "\uff0e", "\uff61", "%2e", "%2E", "%E3%80%82")


@st.composite
def own_machine(draw: st.DrawFn) -> str:
    """A host that is each node's own machine, spelled in one of the ways that a resolver somewhere takes."""
    address = draw(st.one_of(st.just(0), st.integers(127 << 24, (128 << 24) - 1)))
    octets = address.to_bytes(4, "big")
    short = [*(str(it) for it in octets[:1]), str(address & 0xFFFFFF)]
    text = draw(
        st.sampled_from(
            [
                ".".join(map(str, octets)),
                ".".join(map(hex, octets)),
                ".".join(f"0{it:o}" for it in octets),
                ".".join(short),
                str(address),
                hex(address),
                f"0{address:o}",
                f"[::ffff:{'.'.join(map(str, octets))}]",
                f"[::ffff:{address >> 16:x}:{address & 0xFFFF:x}]",
                "[::1]",
                "[::]",
                "localhost",
                "app.localhost",
            ]
        )
    )
    if text.startswith("["):
        return text.upper() if draw(st.booleans()) else text
    dots = draw(st.sampled_from(DOTS))
    letters = []
    for it in text:
        how = draw(st.sampled_from(["plain", "plain", "upper", "wide", "percent", "wide percent"]))
        wide = FULL_WIDTH.get(it, it)
        plain = {"upper": it.upper(), "wide": wide, "percent": f"%{ord(it):02x}"}.get(how, it)
        letters.append(dots if it == "." else quote(wide, safe="") if how == "wide percent" else plain)
    hidden = draw(st.sampled_from(["", "", "\u00ad", "\u200b", "\u2060"]))
    return "".join(letters) + hidden + draw(st.sampled_from(["", dots]))


OWN_MACHINE = st.one_of(st.sampled_from(LOOPBACK), own_machine())
