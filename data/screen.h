// Which samples of a split can serve for calibration, and how its columns divide them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"

namespace lathe {

// The cells that some columns make: one per combination of values that occurs.
struct Strata {
  struct Stratum {
    std::string name;                // "label=bag, device=old"; "all" without columns
    std::vector<std::string> parts;  // "label=bag", "device=old"
  };
  std::vector<Stratum> list;  // by name
  std::vector<uint32_t> of;   // by sample of the split: its place in the list
};
// `columns`: of the split's groups; "label" is the label's class unless a column has that name. Error: no such column, naming
// those there are.
Result<Strata> find_strata(const Dataset& data, const DataSplit& split, const std::vector<std::string>& columns);

enum class Refusal : uint8_t { kDuplicate, kConstant, kNotFinite };
const char* refusal_name(Refusal why);  // "duplicate", "constant", "NaN or infinity"

struct RefusedSample {
  uint32_t sample = 0;
  Refusal why = Refusal::kDuplicate;
};

struct Screening {
  std::vector<uint32_t> usable;        // samples of the split, in its order
  std::vector<Hash128> contents;       // of the usable ones
  std::vector<RefusedSample> refused;  // in the split's order
};
// Refuses samples whose stored elements are all equal or not all finite, and exact duplicates: of equal samples the one whose
// stratum comes first stays, so that the result does not depend on their order. Stops on Ctrl-C. Errors: the readers'.
Result<Screening> screen_samples(const DataSplit& split, const Strata& strata);

// Of a set of samples, whatever their order.
Hash128 hash_of_set(std::vector<Hash128> contents);

}  // namespace lathe
