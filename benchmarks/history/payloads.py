"""Texts, names and numbers that attack whoever shows them.

Each text, where a page runs it, sets `window.__pwned` or asks for something at `OUTSIDE`, where
nothing answers: a test in a browser looks for both.
"""

from __future__ import annotations

import math

OUTSIDE = "http://127.0.0.1:9/"
_RUN = "window.__pwned=1"

MARKUP = (
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"</ScRiPt ><img src=x onerror={_RUN}>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={OUTSIDE}x.png>",
    f"<svg onload={_RUN}><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<svg><script href='data:text/javascript,{_RUN}'/></svg>",
    f"<math><mtext></style><img src=x onerror={_RUN}></math>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<iframe src=javascript:{_RUN}></iframe>",
    f"<details open ontoggle={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<style>@import '{OUTSIDE}x.css';</style>",
    f"<link rel=stylesheet href={OUTSIDE}x.css>",
    f"<meta http-equiv=refresh content='0;url={OUTSIDE}'>",
    f"<base href='{OUTSIDE}'>",
    f"<form action={OUTSIDE}><button autofocus onfocus=submit()>",
    f"<object data='javascript:{_RUN}'></object>",
    f"<template><script>{_RUN}</script></template>",
    f"<!--<script>{_RUN}--><script>{_RUN}</script>",
    f"]]><script>{_RUN}</script><![CDATA[",
    f"--><img src=x onerror={_RUN}><!--",
    f"</title></textarea></style><img src=x onerror={_RUN}>",
    f"&lt;img src=x onerror={_RUN}&gt; &#60;script&#62;{_RUN}&#60;/script&#62;",
    f"\uff1cscript\uff1e{_RUN}\uff1c/script\uff1e",
)
"""Of HTML, SVG, XML."""

QUOTED = (
    f'" onmouseover="{_RUN}" autofocus onfocus="{_RUN}" x="',
    f"' autofocus onfocus='{_RUN}' x='",
    f"` onfocus=`{_RUN}` autofocus x=`",
    f'"><svg onload={_RUN}>',
    f'";{_RUN};//',
    f"';{_RUN};//",
    f"\\';{_RUN};//",
    f"`;{_RUN};//`",
    f"${{{_RUN}}}",
    f"\u2028{_RUN}\u2029//",
    f'{{"__proto__":{{"polluted":"<img src=x onerror={_RUN}>"}}}}',
)
"""Out of an attribute, or a script's string."""

TEMPLATES = (
    "{{ 7*7 }}{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{% for x in [].__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "{{constructor.constructor('" + _RUN + "')()}}",
    "<%= " + _RUN + " %> #{" + _RUN + "} ${{" + _RUN + "}} %{x} %s %n {0.__class__}",
    '{"mark":"text","encoding":{"text":{"signal":"'
    + _RUN
    + '"}},"href":"javascript:'
    + _RUN
    + '"}',
)
"""Of engines that fill in pages and charts."""

LINKS = (
    f"javascript:{_RUN}",
    f"JaVaScRiPt:{_RUN}//https://example.org",
    f"java\tscript:{_RUN}",
    f"\x01javascript:{_RUN}",
    f"data:text/html,<script>opener.{_RUN}</script>",
    f"vbscript:{_RUN}",
    f"https://example.org/\"onmouseover='{_RUN}'",
    "//127.0.0.1:9/x",
)
"""What stands where an address is expected."""

CONTROLS = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07 \x1b[2J\x1b]0;title\x07",
    "\u202e}evil{\u202c \u2066isolated\u2069 \u200b\u200d\ufeff\u00ad",
    "".join(chr(code) for code in range(1, 32)) + "\x7f\x80\x9b31m",
    "Z\u0351\u036b\u0343a\u0307l\u0310g\u0323o\u034a" * 40,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \ufdfd \U000e0001\U000e0041",
    "line\r\nline\rline\u0085line\u2028line",
)
"""What terminals and layouts act on."""

LONG = (
    "x" * 200_000,
    "word " * 20_000,
    "<b>" * 20_000,
    "https://example.org/" + "a/" * 5_000,
)
"""What takes room."""

TEXTS = (*MARKUP, *QUOTED, *TEMPLATES, *LINKS, *CONTROLS)
"""For any field of text."""

SPREADSHEET = ("=cmd|' /C calc'!A0", "@SUM(1+9)*cmd", "-2+3+cmd")

NAMES = (
    *("constructor", "prototype", "__proto__", "tostring", "valueof", "hasownproperty"),
    *("null", "undefined", "nan", "true", "con", "aux", "nul", "index", "data", "assets"),
    *("A+B", "-rf", "_", "0", "x" * 100),
)
"""Of workloads, within the characters that ids have."""

CELLS = (
    f"<img src=x onerror={_RUN}>",
    f"pytorch_cpu.<svg onload={_RUN}>.f32@amd-cpu",
    f'pytorch_cpu."><script>{_RUN}</script>.f32@amd-cpu',
    "../../../../tmp/lh-escaped.mlp.f32@amd-cpu",
    "..",
    "/etc/passwd",
    "pytorch_cpu.mlp.f32",
    "pytorch_cpu.mlp.f32@",
    "@",
    "...@",
    "pytorch_cpu.a/b.f32@amd-cpu",
    "pytorch_cpu.%2e%2e%2f.f32@amd-cpu",
    "pytorch_cpu.a b\u202e.f32@amd-cpu",
    "pytorch_cpu." + "y" * 400 + ".f32@amd-cpu",
)
"""Ids that no matrix makes, and that a damaged or forged archive can have."""

NUMBERS = (
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, -0.0, -1.0, 0.0),
    *(1e15, 9007199254740993.0, 1e-300),
)
"""For any field of numbers."""

INTEGERS = (-1, 0, 2**63 - 1, -(2**63), 2**53 + 1)
"""Likewise, where they are whole: as many bits as a column has."""
