// The style sheet of report pages.
#pragma once

namespace lathe::tools {

inline constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --page: #fff; --ink: #1c1e21; --dim: #5f6670; --line: #d9dde2; --fill: #4477aa; --mark: #c0392b;
  --int8: #2e8b6a; --fp16: #d19a1f; --fp32: #4477aa; --other: #8a9099; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --ink: #e8eaed; --dim: #a2a9b2; --line: #343a41; --fill: #77aadd;
  --mark: #ff7766; --int8: #55c79b; --fp16: #f0c050; --fp32: #77aadd; --other: #9aa1aa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--page); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; border-bottom: 1px solid var(--line); }
p { margin: .4rem 0; } p.note { color: var(--dim); font-size: .9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: .75rem 0; }
.figures div { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .75rem; }
.figures b { display: block; font-size: 1.3rem; } .figures span { color: var(--dim); font-size: .85rem; display: block; }
.rows { display: grid; grid-template-columns: minmax(0, 1fr); gap: .55rem; margin: .75rem 0; }
.rows header { display: flex; justify-content: space-between; gap: .75rem; font-size: .9rem; }
.rows header span:first-child { overflow-wrap: anywhere; } .rows header span:last-child { color: var(--dim); text-align: right; flex: none; max-width: 65%; }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .9rem; }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .35rem; vertical-align: -.05rem; }
svg { display: block; width: 100%; } svg.bar { height: .5rem; } svg.interval { height: 1.1rem; } svg.strip { height: 3rem; }
svg.histogram { height: 2.2rem; }
.fill { fill: var(--fill); } .mark { fill: var(--mark); } .track { fill: var(--line); }
.int8 { fill: var(--int8); background: var(--int8); } .fp16 { fill: var(--fp16); background: var(--fp16); }
.fp32 { fill: var(--fp32); background: var(--fp32); } .other { fill: var(--other); background: var(--other); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem .9rem; font-size: .9rem; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
details summary { cursor: pointer; color: var(--dim); }
)";

}  // namespace lathe::tools
