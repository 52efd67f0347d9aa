// lathe registry: every version of a model, with lineage and figures, one command from promotion and back.
#include <cstdio>
#include <memory>

#include "base/file.h"
#include "base/json.h"
#include "tools/table.h"
#include "tools/verb.h"
#include "tools/versions.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string folder = "lathe-registry";
  std::string file, name, parent, tag, command, output, device, other;
  std::vector<std::string> metrics, latencies;
  size_t keep = 10;
  bool json = false;
};

std::string number(const char* format, double v) {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return text;
}

// What `lathe eval --json` printed: the figures of its metric, overall and by group.
Result<void> read_metrics(const std::string& path, Version* v) {
  LATHE_TRY(const std::string text, read_text_file(path));
  LATHE_TRY(const Tree tree, parse_json(text, path));
  const Tree* metric = tree.find("metric");
  if (metric == nullptr || metric->as_string() == nullptr)
    return fail(Code::kInvalidArgument, path + ": is not what `lathe eval --json` prints");
  const auto take = [&](const Tree& from, const std::string& group) {
    double value = 0;
    if (const Tree* f = from.find(*metric->as_string()); f != nullptr && f->as_number(&value)) v->metrics[group][*metric->as_string()] = value;
  };
  take(tree, "");
  if (const Tree* groups = tree.find("groups"); groups != nullptr && groups->as_table() != nullptr)
    for (const auto& [name, group] : *groups->as_table()) take(group, name);
  return {};
}

Result<void> read_figures(const Options& o, Version* v) {
  for (const std::string& path : o.metrics) LATHE_CHECK_OK(read_metrics(path, v));
  for (const std::string& text : o.latencies) {
    const size_t at = text.rfind('=');
    char* end = nullptr;
    const double us = at == std::string::npos ? 0 : std::strtod(text.c_str() + at + 1, &end);
    if (at == 0 || end == nullptr || *end != '\0' || end == text.c_str() + at + 1 || !(us > 0))
      return fail(Code::kInvalidArgument, "--latency '" + text + "' is not DEVICE=MICROSECONDS");
    v->latency_us[text.substr(0, at)] = us;
  }
  return {};
}

Result<void> add(const Options& o) {
  LATHE_TRY(Registry registry, Registry::open(o.folder, true));
  Version v;
  v.name = o.name;
  v.parent = o.parent;
  v.command = o.command;
  LATHE_CHECK_OK(read_figures(o, &v));
  LATHE_TRY(const Version added, add_version(registry, o.file, std::move(v), o.tag));
  std::printf("added %s, %s in %zu pieces, %s\n", added.name.c_str(), bytes_text(static_cast<double>(added.bytes)).c_str(),
              added.chunks.size(), to_hex(added.file).c_str());
  return {};
}

Result<void> measure(const Options& o) {
  LATHE_TRY(Registry registry, Registry::open(o.folder, false));
  LATHE_TRY(Version v, registry.find(o.name));
  LATHE_CHECK_OK(read_figures(o, &v));
  return registry.update(v);
}

using Tags = std::map<std::string, std::string>;

// What a registry calls its versions, "current" included.
Result<Tags> names_of(const Registry& r) {
  LATHE_TRY(Tags tags, r.tags());
  if (!r.state().current.empty()) tags["current"] = r.state().current;
  return tags;
}

std::string tags_of(const Tags& tags, const std::string& name) {
  std::string text;
  for (const auto& [tag, of] : tags)
    if (of == name) text += (text.empty() ? "" : " ") + tag;
  return text;
}

Tree version_json(const Tags& tags, const Version& v) {
  Tree metrics = Tree::table(), latency = Tree::table(), facts = Tree::table();
  for (const auto& [group, values] : v.metrics) {
    Tree row = Tree::table();
    for (const auto& [metric, value] : values) row.set(metric, value);
    metrics.set(group, std::move(row));
  }
  for (const auto& [device, us] : v.latency_us) latency.set(device, us);
  for (const auto& [key, value] : v.facts) facts.set(key, value);
  Tree out = Tree::table();
  out.set("name", v.name).set("parent", v.parent).set("file", to_hex(v.file)).set("bytes", v.bytes).set("created", v.created);
  out.set("tool", v.tool).set("command", v.command).set("tags", tags_of(tags, v.name)).set("facts", std::move(facts));
  return out.set("metrics", std::move(metrics)).set("latency_us", std::move(latency));
}

Result<void> list(const Options& o) {
  LATHE_TRY(const Registry registry, Registry::open(o.folder, false));
  LATHE_TRY(const std::vector<Version> all, registry.versions());
  LATHE_TRY(const Tags tags, names_of(registry));
  if (o.json) {
    Tree rows = Tree::array();
    for (const Version& v : all) rows.push(version_json(tags, v));
    std::printf("%s\n", to_json(rows).c_str());
    return {};
  }
  Table table({"version", "made from", "size", "created", "figures", "latency", ""});
  for (const Version& v : all) {
    std::string figures, latency;
    if (const auto overall = v.metrics.find(""); overall != v.metrics.end())
      for (const auto& [metric, value] : overall->second) figures += (figures.empty() ? "" : ", ") + metric + " " + number("%.4f", value);
    for (const auto& [device, us] : v.latency_us) latency += (latency.empty() ? "" : ", ") + device + " " + number("%.1f us", us);
    table.add({v.name, v.parent, bytes_text(static_cast<double>(v.bytes)), v.created, figures, latency, tags_of(tags, v.name)});
  }
  std::printf("%s", table.text().c_str());
  return {};
}

Result<void> show(const Options& o) {
  LATHE_TRY(const Registry registry, Registry::open(o.folder, false));
  LATHE_TRY(const Version v, registry.find(o.name));
  if (!o.output.empty()) LATHE_CHECK_OK(registry.get(v, o.output));
  LATHE_TRY(const Tags tags, names_of(registry));
  std::printf("%s\n", to_json(version_json(tags, v)).c_str());
  return {};
}

Result<void> diff(const Options& o) {
  LATHE_TRY(const Registry registry, Registry::open(o.folder, false));
  LATHE_TRY(const Version a, registry.find(o.name));
  LATHE_TRY(const Version b, registry.find(o.other));
  std::set<Hash128> in_a;
  for (const Chunk& c : a.chunks) in_a.insert(c.hash);
  uint64_t shared = 0;
  for (const Chunk& c : b.chunks) shared += in_a.contains(c.hash) ? c.bytes : 0;
  std::printf("%s of the %s of %s are bytes of %s\n", bytes_text(static_cast<double>(shared)).c_str(),
              bytes_text(static_cast<double>(b.bytes)).c_str(), b.name.c_str(), a.name.c_str());
  Table table({"figure", a.name, b.name, "difference"});
  const auto row = [&](const std::string& what, double x, double y, const char* format) {
    table.add({what, number(format, x), number(format, y), number("%+.4g", y - x)});
  };
  for (const auto& [group, values] : a.metrics)
    for (const auto& [metric, value] : values)
      if (const auto g = b.metrics.find(group); g != b.metrics.end() && g->second.contains(metric))
        row(metric + (group.empty() ? "" : ", " + group), value, g->second.at(metric), "%.4f");
  for (const auto& [device, us] : a.latency_us)
    if (b.latency_us.contains(device)) row("latency, " + device + ", us", us, b.latency_us.at(device), "%.1f");
  row("bytes", static_cast<double>(a.bytes), static_cast<double>(b.bytes), "%.0f");
  std::printf("%s", table.text().c_str());
  return {};
}

Result<void> now_current(const Result<Version>& v) {
  if (!v) return tl::unexpected(v.error());
  std::printf("current: %s, %s\n", v->name.c_str(), to_hex(v->file).c_str());
  return {};
}

Result<void> verify(const Options& o) {
  LATHE_TRY(const Registry registry, Registry::open(o.folder, false));
  LATHE_TRY(const auto problems, registry.verify());
  if (problems.empty()) {
    std::printf("every version is whole\n");
    return {};
  }
  std::string text = std::to_string(problems.size()) + (problems.size() == 1 ? " problem:" : " problems:");
  for (const std::string& p : problems) text += "\n  " + p;
  return fail(Code::kCorrupt, text);
}

using Step = Result<void> (*)(const Options&);

// One command of the verb; what runs is the last one that was named.
Arguments command(Arguments& args, const std::shared_ptr<Options>& o, const std::shared_ptr<Step>& step, const char* name,
                  const char* summary, Step run) {
  Arguments sub = args.command(name, summary);
  sub.option("--registry", o->folder, "folder of the registry").show_default();
  sub.when_given([step, run] { *step = run; });
  return sub;
}

void add_figures(Arguments& sub, const std::shared_ptr<Options>& o) {
  sub.option("--metrics", o->metrics, "file with what `lathe eval --json` printed");
  sub.option("--latency", o->latencies, "DEVICE=MICROSECONDS: the median of a run there");
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  auto step = std::make_shared<Step>(nullptr);
  args.require_command();
  Arguments sub = command(args, o, step, "add", "keep a file as a version", add);
  sub.option("file", o->file, "model file").required();
  sub.option("--name", o->name, "of the version").required();
  sub.option("--parent", o->parent, "version that it was made from");
  sub.option("--tag", o->tag, "set this tag, too: candidate, release-7, ...");
  sub.option("--command", o->command, "that made it, for the record");
  add_figures(sub, o);
  sub = command(args, o, step, "measure", "add figures to a version", measure);
  sub.option("version", o->name, "name, tag or first digits of the hash").required();
  add_figures(sub, o);
  sub = command(args, o, step, "list", "all versions", list);
  sub.flag("--json", o->json, "print JSON");
  sub = command(args, o, step, "show", "what is known of a version, as JSON", show);
  sub.option("version", o->name, "name, tag, `current` or first digits of the hash").required();
  sub.option("-o,--output", o->output, "write its file here");
  sub = command(args, o, step, "diff", "what two versions share, and their figures", diff);
  sub.option("first", o->name).required();
  sub.option("second", o->other).required();
  sub = command(args, o, step, "tag", "point a tag at a version", [](const Options& x) -> Result<void> {
    LATHE_TRY(Registry registry, Registry::open(x.folder, false));
    return registry.tag(x.tag, x.name);
  });
  sub.option("tag", o->tag).required();
  sub.option("version", o->name).required();
  sub = command(args, o, step, "promote", "make a version the current one", [](const Options& x) -> Result<void> {
    LATHE_TRY(Registry registry, Registry::open(x.folder, false));
    return now_current(registry.promote(x.name, x.device.empty() ? std::nullopt : std::optional(x.device)));
  });
  sub.option("version", o->name).required();
  sub.option("--device", o->device, "refuse a version without a latency measured there");
  sub = command(args, o, step, "rollback", "back to the version before, or to another", [](const Options& x) -> Result<void> {
    LATHE_TRY(Registry registry, Registry::open(x.folder, false));
    return now_current(registry.rollback(x.name.empty() ? std::nullopt : std::optional(x.name)));
  });
  sub.option("version", o->name, "name or tag; left out: the one that was current before");
  sub = command(args, o, step, "gc", "remove what nothing needs", [](const Options& x) -> Result<void> {
    LATHE_TRY(Registry registry, Registry::open(x.folder, false));
    LATHE_TRY(const Registry::Collected c, registry.gc(x.keep));
    for (const std::string& name : c.versions) std::printf("removed %s\n", name.c_str());
    std::printf("%zu versions, %s freed\n", c.versions.size(), bytes_text(static_cast<double>(c.swept.bytes)).c_str());
    return {};
  });
  sub.option("--keep", o->keep, "newest versions to keep beside those that are tagged, current, in the history, or ancestors")
      .show_default();
  command(args, o, step, "verify", "read every byte and compare hashes", verify);
  return [o, step] { return (*step)(*o); };
}

}  // namespace

const Verb kVerb_registry{"registry", "keep versions of a model: add, list, diff, promote, roll back",
                          "lathe registry add int8.lathe --name v2 --parent v1 --metrics eval.json --latency server=48.4", setup};

}  // namespace lathe::tools
