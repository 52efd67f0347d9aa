#include "data/screen.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "base/cancel.h"

namespace lathe {
namespace {

constexpr uint64_t kPollMask = 1023;
constexpr const char* kRefusals[] = {"duplicate", "constant", "NaN or infinity"};

// The column's value of every sample.
Result<std::vector<std::string>> column_values(const Dataset& data, const DataSplit& split, const std::string& name) {
  std::string known;
  for (const GroupColumn& column : split.groups()) {
    if (column.name == name) return column.values;
    known += (known.empty() ? "'" : ", '") + column.name + "'";
  }
  if (name != "label" || !split.has_labels()) {
    if (split.has_labels()) known += known.empty() ? "'label'" : ", 'label'";
    return fail(Code::kInvalidArgument, data.description().path + ": split '" + split.name() + "' has no column '" + name +
                                            "' (it has " + (known.empty() ? "none" : known) + ")");
  }
  std::vector<std::string> values;
  for (uint64_t i = 0; i < split.size(); ++i) values.push_back(data.classes()[static_cast<size_t>(split.label(i))]);
  return values;
}

}  // namespace

const char* refusal_name(Refusal why) { return kRefusals[static_cast<size_t>(why)]; }

Result<Strata> find_strata(const Dataset& data, const DataSplit& split, const std::vector<std::string>& columns) {
  Strata out;
  out.list.push_back({columns.empty() ? "all" : "", {}});
  out.of.assign(split.size(), 0);
  // Column by column, so that a sample never costs more than its number.
  for (const std::string& name : columns) {
    LATHE_TRY(const std::vector<std::string> values, column_values(data, split, name));
    std::map<std::pair<uint32_t, std::string>, uint32_t> finer;
    for (uint64_t i = 0; i < split.size(); ++i) finer.try_emplace({out.of[i], values[i]}, 0);
    std::vector<Strata::Stratum> list;
    for (auto& [key, place] : finer) {
      place = static_cast<uint32_t>(list.size());
      Strata::Stratum s = out.list[key.first];
      s.parts.push_back(name + "=" + key.second);
      s.name += (s.name.empty() ? "" : ", ") + s.parts.back();
      list.push_back(std::move(s));
    }
    for (uint64_t i = 0; i < split.size(); ++i) out.of[i] = finer.at({out.of[i], values[i]});
    out.list = std::move(list);
  }
  return out;
}

Result<Screening> screen_samples(const DataSplit& split, const Strata& strata) {
  Screening out;
  std::vector<std::pair<Hash128, uint32_t>> sound;
  for (uint32_t i = 0; i < split.size(); ++i) {
    if ((i & kPollMask) == 0) LATHE_CHECK_OK(check_cancelled());
    LATHE_TRY(const std::string bad, split.non_finite(i));
    LATHE_TRY(const bool constant, split.is_constant(i));
    if (!bad.empty() || constant) {
      out.refused.push_back({i, bad.empty() ? Refusal::kConstant : Refusal::kNotFinite});
      continue;
    }
    LATHE_TRY(const Hash128 hash, split.hash(i));
    sound.push_back({hash, i});
  }
  std::sort(sound.begin(), sound.end(), [&](const auto& a, const auto& b) {
    return std::tuple(a.first, strata.of[a.second], a.second) < std::tuple(b.first, strata.of[b.second], b.second);
  });
  std::vector<std::pair<uint32_t, Hash128>> kept;
  for (size_t k = 0; k < sound.size(); ++k)
    if (k > 0 && sound[k].first == sound[k - 1].first)
      out.refused.push_back({sound[k].second, Refusal::kDuplicate});
    else
      kept.push_back({sound[k].second, sound[k].first});
  std::sort(kept.begin(), kept.end());
  std::sort(out.refused.begin(), out.refused.end(), [](const auto& a, const auto& b) { return a.sample < b.sample; });
  for (const auto& [sample, hash] : kept) {
    out.usable.push_back(sample);
    out.contents.push_back(hash);
  }
  return out;
}

Hash128 hash_of_set(std::vector<Hash128> contents) {
  std::sort(contents.begin(), contents.end());
  Hasher all;
  for (const Hash128& h : contents) all.update(to_hex(h));
  return all.finish();
}

}  // namespace lathe
