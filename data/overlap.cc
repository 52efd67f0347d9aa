#include "data/overlap.h"

#include <unordered_map>

#include "base/cancel.h"

namespace lathe {
namespace {

constexpr uint64_t kPollMask = 1023;

struct HashOfHash {
  size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.low); }
};

struct Place {
  uint32_t split = 0, sample = 0;
};

std::string describe(const std::vector<DataSplit>& splits, const Place& p) {
  const DataSplit& split = splits[p.split];
  return "split '" + split.name() + "' sample " + std::to_string(p.sample) + " (" + split.where(p.sample) + ")";
}

}  // namespace

Result<OverlapReport> find_overlap(const std::vector<DataSplit>& splits) {
  OverlapReport report;
  report.duplicates.resize(splits.size());
  std::unordered_map<Hash128, Place, HashOfHash> first;
  uint64_t total = 0;
  for (const DataSplit& split : splits) total += split.size();
  first.reserve(total);
  for (uint32_t s = 0; s < splits.size(); ++s)
    for (uint32_t i = 0; i < splits[s].size(); ++i) {
      if ((i & kPollMask) == 0) LATHE_CHECK_OK(check_cancelled());
      LATHE_TRY(const Hash128 hash, splits[s].hash(i));
      const auto [it, is_new] = first.try_emplace(hash, Place{s, i});
      if (is_new) continue;
      if (it->second.split == s) {
        ++report.duplicates[s];
        continue;
      }
      if (++report.shared == 1) report.text = describe(splits, {s, i}) + " is also " + describe(splits, it->second);
    }
  if (report.shared > 1) report.text += ", and " + std::to_string(report.shared - 1) + " more are shared";
  return report;
}

}  // namespace lathe
