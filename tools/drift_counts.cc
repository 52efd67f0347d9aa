#include "tools/drift_counts.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"

namespace lathe::tools {
namespace {

Tree numbers(const std::vector<double>& values) {
  Tree out = Tree::array();
  for (const double v : values) out.push(v);
  return out;
}

}  // namespace

Tree counts_json(const std::vector<LiveTensor>& tensors) {
  Tree rows = Tree::table();
  for (const LiveTensor& t : tensors)
    rows.set(t.name, Tree(Tree::table().set("samples", t.samples).set("below", t.below).set("above", t.above).set("share", numbers(t.share)).set("square", numbers(t.square))));
  return Tree(Tree::table().set("live_counts", std::move(rows)));
}

Result<std::vector<LiveTensor>> read_counts(const std::string& path) {
  LATHE_TRY(const std::string text, read_text_file(path));
  LATHE_TRY(const Tree tree, parse_json(text, path));
  const Tree* rows = tree.find("live_counts");
  if (rows == nullptr || rows->as_table() == nullptr)
    return fail(Code::kInvalidArgument, path + ": not what `lathe drift --save` writes: no table 'live_counts'");
  std::vector<LiveTensor> out;
  for (const auto& [name, row] : *rows->as_table()) {
    LATHE_TRY(TableReader reader, TableReader::open(row, path + ": " + name));
    LiveTensor t;
    t.name = name;
    LATHE_TRY(const int64_t samples, reader.integer("samples", 0, INT64_MAX));
    t.samples = static_cast<uint64_t>(samples);
    LATHE_TRY(t.below, reader.number("below"));
    LATHE_TRY(t.above, reader.number("above"));
    LATHE_TRY(t.share, reader.numbers("share"));
    LATHE_TRY(t.square, reader.numbers("square"));
    LATHE_CHECK_OK(reader.finish());
    if (t.share.size() != t.square.size()) return reader.error(row, "'share' and 'square' differ in length");
    out.push_back(std::move(t));
  }
  return out;
}

Result<void> add_counts(std::vector<LiveTensor>* to, const std::vector<LiveTensor>& more) {
  for (const LiveTensor& t : more) {
    const auto it = std::find_if(to->begin(), to->end(), [&](const LiveTensor& x) { return x.name == t.name; });
    if (it == to->end()) {
      to->push_back(t);
      continue;
    }
    if (it->share.size() != t.share.size())
      return fail(Code::kInvalidArgument, "tensor '" + t.name + "' was counted in " + std::to_string(it->share.size()) + " and in " +
                                              std::to_string(t.share.size()) + " groups: the counts come from different models");
    it->samples += t.samples;
    it->below += t.below;
    it->above += t.above;
    for (size_t g = 0; g < t.share.size(); ++g) it->share[g] += t.share[g], it->square[g] += t.square[g];
  }
  return {};
}

}  // namespace lathe::tools
