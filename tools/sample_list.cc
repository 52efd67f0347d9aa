#include "tools/sample_list.h"

#include <algorithm>

#include "base/cancel.h"
#include "base/toml.h"
#include "data/screen.h"

namespace lathe::tools {

std::string sample_list_text(const SampleList& list, const std::string& comment) {
  std::string text =
      "# " + comment + "\nset = \"" + to_hex(hash_of_set(list.contents)) + "\"\nsplit = \"" + list.split + "\"\nsamples = [\n";
  for (const Hash128& h : list.contents) text += "  \"" + to_hex(h) + "\",\n";
  return text + "]\n";
}

Result<SampleList> read_sample_list(const std::string& path) {
  LATHE_TRY(const Tree tree, load_toml(path));
  LATHE_TRY(TableReader reader, TableReader::open(tree, path));
  LATHE_TRY(const std::string set, reader.string("set"));
  SampleList list;
  list.where = path;
  LATHE_TRY(list.split, reader.string("split"));
  if (reader.get("samples") == nullptr) return reader.missing("samples");
  LATHE_TRY(const std::vector<std::string> samples, reader.strings("samples"));
  LATHE_CHECK_OK(reader.finish());
  for (const std::string& text : samples) {
    const auto hash = parse_hash128(text);
    if (!hash) return fail(Code::kCorrupt, path + ": '" + text.substr(0, 80) + "' is not the hash of a sample");
    list.contents.push_back(*hash);
  }
  std::sort(list.contents.begin(), list.contents.end());
  list.contents.erase(std::unique(list.contents.begin(), list.contents.end()), list.contents.end());
  if (list.contents.empty()) return fail(Code::kCorrupt, path + ": the calibration set is empty");
  if (to_hex(hash_of_set(list.contents)) != set)
    return fail(Code::kCorrupt, path + ": its samples are not those of set " + set.substr(0, 80));
  return list;
}

Result<const DataSplit*> split_of(const SampleList& list, const Dataset& data) {
  const DataSplit* split = data.split(list.split);
  if (split == nullptr)
    return fail(Code::kInvalidArgument, list.where + ": " + data.description().path + " has no split '" + list.split + "'");
  return split;
}

Result<std::vector<uint32_t>> find_listed(const SampleList& list, const DataSplit& split) {
  constexpr uint32_t kAbsent = UINT32_MAX;
  std::vector<uint32_t> out(list.contents.size(), kAbsent);
  for (uint32_t i = 0; i < split.size(); ++i) {
    LATHE_CHECK_OK(check_cancelled());
    LATHE_TRY(const Hash128 hash, split.hash(i));
    const auto at = std::lower_bound(list.contents.begin(), list.contents.end(), hash);
    if (at == list.contents.end() || *at != hash) continue;
    uint32_t& place = out[static_cast<size_t>(at - list.contents.begin())];
    if (place == kAbsent) place = i;
  }
  const auto absent = std::find(out.begin(), out.end(), kAbsent);
  if (absent != out.end())
    return fail(Code::kInvalidArgument, list.where + ": " + std::to_string(std::count(out.begin(), out.end(), kAbsent)) +
                                            " of its samples are not in split '" + split.name() + "', the first is " +
                                            to_hex(list.contents[static_cast<size_t>(absent - out.begin())]));
  return out;
}

}  // namespace lathe::tools
