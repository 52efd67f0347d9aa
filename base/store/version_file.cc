#include "base/store/version_file.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/toml.h"

namespace lathe {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    if (c == '"' || c == '\\') out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20) out += code;
    else out += c;
  }
  return out + "\"";
}

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", v);
  const std::string s = text;
  return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
}

std::string line(const char* key, const std::string& value) { return std::string(key) + " = " + quoted(value) + "\n"; }

template <class Map, class Format> std::string table(const std::string& title, const Map& map, Format&& format) {
  if (map.empty()) return "";
  std::string text = "\n[" + title + "]\n";
  for (const auto& [key, value] : map) text += quoted(key) + " = " + format(value) + "\n";
  return text;
}

Result<Chunk> parse_chunk(const std::string& text, const TableReader& r) {
  const size_t colon = text.find(':');
  const auto hash = parse_hash128(text.substr(0, colon));
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (!hash || digits.empty() || digits.size() > 18 || !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); }))
    return fail(Code::kCorrupt, r.where() + ": chunk '" + text + "' is not hash:bytes");
  return Chunk{*hash, std::stoull(digits)};
}

Result<std::map<std::string, double>> numbers_of(const Tree& tree, const TableReader& r) {
  if (tree.as_table() == nullptr) return r.error(tree, "must be a table");
  std::map<std::string, double> out;
  for (const auto& [key, value] : *tree.as_table())
    if (!value.as_number(&out[key])) return r.error(value, "'" + key + "' must be a number");
  return out;
}

Result<std::map<std::string, std::string>> texts_of(TableReader& r, const char* key) {
  std::map<std::string, std::string> out;
  const Tree* tree = r.get(key);
  if (tree == nullptr) return out;
  if (tree->as_table() == nullptr) return r.error(*tree, "must be a table");
  for (const auto& [name, value] : *tree->as_table()) {
    if (value.as_string() == nullptr) return r.error(value, "'" + name + "' must be a string");
    out[name] = *value.as_string();
  }
  return out;
}

}  // namespace

std::string version_text(const Version& v) {
  std::string text = line("name", v.name) + line("parent", v.parent) + line("file", to_hex(v.file)) + line("created", v.created) +
                     line("tool", v.tool) + line("command", v.command) + "chunks = [\n";
  for (const Chunk& c : v.chunks) text += "  \"" + to_hex(c.hash) + ":" + std::to_string(c.bytes) + "\",\n";
  text += "]\n" + table("facts", v.facts, [](const std::string& s) { return quoted(s); }) + table("latency_us", v.latency_us, number);
  for (const auto& [group, metrics] : v.metrics) text += table("metrics." + quoted(group), metrics, number);
  return text;
}

Result<Version> parse_version(std::string_view text, const std::string& where) {
  LATHE_TRY(const Tree tree, parse_toml(text, where));
  LATHE_TRY(TableReader r, TableReader::open(tree, where));
  Version v;
  LATHE_TRY(v.name, r.string("name"));
  LATHE_TRY(v.parent, r.string("parent"));
  LATHE_TRY(const std::string file, r.string("file"));
  const auto hash = parse_hash128(file);
  if (!hash) return fail(Code::kCorrupt, where + ": '" + file + "' is no hash");
  v.file = *hash;
  LATHE_TRY(v.created, r.string("created"));
  LATHE_TRY(v.tool, r.string("tool"));
  LATHE_TRY(v.command, r.string("command"));
  LATHE_TRY(const auto chunks, r.strings("chunks"));
  for (const std::string& c : chunks) {
    LATHE_TRY(v.chunks.emplace_back(), parse_chunk(c, r));
    v.bytes += v.chunks.back().bytes;
  }
  LATHE_TRY(v.facts, texts_of(r, "facts"));
  if (const Tree* latency = r.get("latency_us")) {
    LATHE_TRY(v.latency_us, numbers_of(*latency, r));
  }
  if (const Tree* metrics = r.get("metrics")) {
    if (metrics->as_table() == nullptr) return r.error(*metrics, "must be a table");
    for (const auto& [group, values] : *metrics->as_table()) {
      LATHE_TRY(v.metrics[group], numbers_of(values, r));
    }
  }
  LATHE_CHECK_OK(r.finish());
  return v;
}

std::string state_text(const RegistryState& s) {
  std::string text = line("current", s.current) + "history = [";
  for (const std::string& name : s.history) text += quoted(name) + ", ";
  return text + "]\n" + table("tags", s.tags, [](const std::string& name) { return quoted(name); });
}

Result<RegistryState> parse_state(std::string_view text, const std::string& where) {
  LATHE_TRY(const Tree tree, parse_toml(text, where));
  LATHE_TRY(TableReader r, TableReader::open(tree, where));
  RegistryState s;
  LATHE_TRY(s.current, r.string("current"));
  LATHE_TRY(s.history, r.strings("history"));
  LATHE_TRY(s.tags, texts_of(r, "tags"));
  LATHE_CHECK_OK(r.finish());
  return s;
}

}  // namespace lathe
