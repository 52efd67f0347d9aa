#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cancel.h"
#include "data/dataset.h"
#include "data/overlap.h"
#include "data/tensor.h"

namespace lathe {
namespace {

constexpr uint64_t kPollMask = 1023;

// Running figures of one input over all splits.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity(), sum = 0;
  uint64_t finite = 0, non_finite = 0;
  std::string first_bad;  // where the first NaN or infinity is

  void add(double v) {
    if (!std::isfinite(v)) {
      ++non_finite;
      return;
    }
    low = std::min(low, v);
    high = std::max(high, v);
    sum += v;
    ++finite;
  }
};

Result<void> scan(const DataSplit& split, size_t input, const DataInput& form, Range* range) {
  std::vector<std::byte> sample(form.bytes);
  const uint64_t elems = form.bytes / dtype_bytes(form.dtype);
  for (uint64_t i = 0; i < split.size(); ++i) {
    if ((i & kPollMask) == 0) LATHE_CHECK_OK(check_cancelled());
    LATHE_CHECK_OK(split.fill(input, i, sample.data()));
    const uint64_t before = range->non_finite;
    for (uint64_t e = 0; e < elems; ++e) range->add(element_as_double(form.dtype, sample.data(), e));
    if (before == 0 && range->non_finite != 0) range->first_bad = split.where(i);
  }
  return {};
}

SplitReport count(const DataSplit& split, size_t classes, uint64_t duplicates) {
  SplitReport out;
  out.name = split.name();
  out.samples = split.size();
  out.duplicates = duplicates;
  if (split.has_labels()) out.per_class.resize(classes);
  for (uint64_t i = 0; split.has_labels() && i < split.size(); ++i) ++out.per_class[static_cast<size_t>(split.label(i))];
  for (const GroupColumn& column : split.groups()) out.group_columns.push_back(column.name);
  return out;
}

}  // namespace

Result<DatasetReport> dataset_check(const std::string& toml_path) {
  LoadOptions lenient;
  lenient.allow_overlap = lenient.allow_non_finite = true;
  LATHE_TRY(const Dataset set, Dataset::load(toml_path, lenient));
  LATHE_TRY(const OverlapReport overlap, find_overlap(set.splits()));
  DatasetReport report;
  report.classes = set.classes();
  for (size_t s = 0; s < set.splits().size(); ++s)
    report.splits.push_back(count(set.splits()[s], set.classes().size(), overlap.duplicates[s]));
  if (overlap.shared != 0) report.problems.push_back(overlap.text);
  for (size_t i = 0; i < set.inputs().size(); ++i) {
    const DataInput& input = set.inputs()[i];
    Range range;
    for (const DataSplit& split : set.splits()) LATHE_CHECK_OK(scan(split, i, input, &range));
    InputReport out{input.name, input.dtype, input.dims, 0, 0, 0, range.non_finite};
    if (range.finite != 0) {
      out.low = range.low;
      out.high = range.high;
      out.mean = range.sum / static_cast<double>(range.finite);
    }
    if (range.non_finite != 0) {
      const std::string name = input.name.empty() ? "the input" : "input '" + input.name + "'";
      report.problems.push_back(name + " has " + std::to_string(range.non_finite) + " NaN or infinite values, first in " +
                                range.first_bad);
    }
    report.inputs.push_back(std::move(out));
  }
  return report;
}

}  // namespace lathe
