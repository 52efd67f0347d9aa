#include "base/toml.h"

#include <algorithm>

// toml++ 3.3 asserts on some malformed text ("a.[b" is one). Bytes from outside must not end the process, nor be undefined with
// NDEBUG, so its assertions throw and parse_toml() turns them into an error.
#undef NDEBUG
namespace lathe {
namespace {
struct ParserAssertion {};
[[noreturn]] void throw_parser_assertion() { throw ParserAssertion(); }
}  // namespace
}  // namespace lathe
#define TOML_ASSERT(condition) static_cast<void>((condition) ? void() : ::lathe::throw_parser_assertion())
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "base/file.h"

namespace lathe {
namespace {

constexpr uint64_t kMaxTomlBytes = uint64_t{16} << 20;

std::string at(const std::string& where, uint32_t line) { return line == 0 ? where : where + ":" + std::to_string(line); }

// Recursion is bounded by the parser's own limit on nesting (256).
Result<Tree> convert(const toml::node& node, const std::string& where) {
  Tree out;
  if (const auto* v = node.as_boolean()) out = Tree(v->get());
  if (const auto* v = node.as_integer()) out = Tree(v->get());
  if (const auto* v = node.as_floating_point()) out = Tree(v->get());
  if (const auto* v = node.as_string()) out = Tree(v->get());
  if (const auto* v = node.as_array()) {
    out = Tree::array();
    for (const toml::node& item : *v) {
      LATHE_TRY(Tree converted, convert(item, where));
      out.push(std::move(converted));
    }
  }
  if (const auto* v = node.as_table()) {
    out = Tree::table();
    // toml++ sorts its keys; the text's order reads better in messages and reports.
    std::vector<std::pair<toml::source_position, std::pair<std::string, const toml::node*>>> entries;
    for (const auto& [key, item] : *v) entries.push_back({key.source().begin, {std::string(key.str()), &item}});
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [position, entry] : entries) {
      LATHE_TRY(Tree converted, convert(*entry.second, where));
      // A table's own line may be that of its first key; the key's line is where a reader looks.
      converted.set_line(static_cast<uint32_t>(position.line));
      out.set(entry.first, std::move(converted));
    }
  }
  const auto line = static_cast<uint32_t>(node.source().begin.line);
  if (out.is_null()) return fail(Code::kInvalidArgument, at(where, line) + ": dates and times are not supported");
  out.set_line(line);
  return out;
}

}  // namespace

Result<Tree> parse_toml(std::string_view text, const std::string& where) {
  try {
    LATHE_TRY(Tree root, convert(toml::parse(text), where));
    root.set_line(0);  // a mistake of the whole file has no line
    return root;
  } catch (const toml::parse_error& e) {
    return fail(Code::kCorrupt,
                at(where, static_cast<uint32_t>(e.source().begin.line)) + ": not valid TOML: " + std::string(e.description()));
  } catch (const ParserAssertion&) {
    return fail(Code::kCorrupt, where + ": not valid TOML");
  }
}

Result<Tree> load_toml(const std::string& path) {
  LATHE_TRY(const std::string text, read_text_file(path, kMaxTomlBytes));
  return parse_toml(text, path);
}

}  // namespace lathe
